// Keeps what the simulation prints, failed assertions among it. Included before everything else, Verilator's runtime too.
#pragma once
extern "C" int simulation_said(const char* format, ...);
#define VL_PRINTF simulation_said
