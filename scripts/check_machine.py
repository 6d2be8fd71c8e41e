# Says in one sentence what a build on this machine lacks. Old syntax: it must run on an old Python to say so.
import os
import shutil
import sys
import sysconfig

OLDEST = (3, 10)


def newer_python():
    for minor in range(20, OLDEST[1] - 1, -1):
        name = "python3.{}".format(minor)
        if sys.version_info[0] == 3 and shutil.which(name):
            return name
    return "/path/to/python"


def missing():
    here = sys.executable
    if sys.version_info < OLDEST:
        version = sys.version.split()[0]
        return "Python 3.10 or newer is needed; {} is Python {}. Try: make PYTHON={} ...".format(
            here, version, newer_python()
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "{} cannot make virtual environments (Debian: apt install python3-venv).".format(here)
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        return "the headers of {} are missing (Debian: apt install python3-dev).".format(here)
    chosen = os.environ.get("CXX", "").split(" ")[0]
    if not any(shutil.which(name) for name in ([chosen] if chosen else ["c++", "g++", "clang++"])):
        return "a C++20 compiler is needed (Debian: apt install g++)."
    return None


if __name__ == "__main__":
    lacking = missing()
    if lacking:
        sys.exit("cipherblas: " + lacking)
