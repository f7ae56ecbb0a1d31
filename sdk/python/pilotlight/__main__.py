"""`python -m pilotlight`: the gateway that was installed with this package."""

import os
import sys
import sysconfig
from pathlib import Path


def program():
    """The path of the gateway, or None: a checkout of the SDK alone has none."""
    beside = Path(__file__).resolve().parents[1] / "bin"  # `pip install --target`
    schemes = (
        [sysconfig.get_default_scheme(), f"{os.name}_user"]
        if sys.version_info >= (3, 10)
        else [f"{os.name}_prefix", f"{os.name}_user"]
    )
    folders = [Path(sysconfig.get_path("scripts", scheme)) for scheme in schemes]
    return next((path for folder in [*folders, beside] if (path := folder / "pilotlight").is_file()), None)


if __name__ == "__main__":
    found = program()
    if found is None:
        sys.exit("pilotlight: this package is the SDK alone, without the gateway; the wheel of a release has both")
    os.execv(found, [str(found), *sys.argv[1:]])
