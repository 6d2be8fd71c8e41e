"""FAME's accelerator as a program sees it: instructions, what they compute, and how calls of an engine become them."""
