"""Networks for CIFAR-10 that run on encrypted images, and how they are trained."""
