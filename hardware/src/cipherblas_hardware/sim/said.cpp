#include <cstdarg>
#include <cstdio>
#include <string>

namespace {
std::string text;
}

extern "C" {

int simulation_said(const char* format, ...) {
    char line[1024];
    std::va_list values;
    va_start(values, format);
    const int length = std::vsnprintf(line, sizeof line, format, values);
    va_end(values);
    text += line;
    return length;
}

// What was printed since the last call.
const char* take_said() {
    static std::string taken;
    taken = std::move(text);
    text.clear();
    return taken.c_str();
}
}
