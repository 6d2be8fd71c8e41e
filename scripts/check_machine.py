# Says in a sentence what a build on this machine lacks. Runs on any Python, however old, so that it can say so.
import os
import shutil
import sys
import sysconfig

OLDEST = (3, 10)


def newer_python():
    for minor in range(20, OLDEST[1] - 1, -1):
        if shutil.which("python3.%d" % minor):
            return "python3.%d" % minor
    return None


def missing():
    if sys.version_info < OLDEST:
        text = "Python %d.%d or newer is needed; %s is Python %s." % (
            OLDEST + (sys.executable, sys.version.split()[0])
        )
        newer = newer_python() if sys.version_info[0] == 3 else None
        return text + (" Try: make PYTHON=%s ..." % newer if newer else " Try: make PYTHON=/path/to/python ...")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "%s cannot make virtual environments (Debian, Ubuntu: apt install python3-venv)." % sys.executable
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        return "The headers of %s are missing (Debian, Ubuntu: apt install python3-dev)." % sys.executable
    compiler = os.environ.get("CXX", "").split(" ")[0]
    if not any(shutil.which(name) for name in ([compiler] if compiler else ["c++", "g++", "clang++"])):
        return "A C++20 compiler is needed (Debian, Ubuntu: apt install g++)."
    return None


if __name__ == "__main__":
    lacking = missing()
    if lacking:
        sys.exit("cipherblas: " + lacking)
