"""Archives whose bytes depend on nothing but what is in them: names in order, one time, one owner."""

import gzip
import hashlib
import io
import tarfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A file, a folder (without content), or a symbolic link (with `link`)."""

    name: str
    content: bytes | None = None
    mode: int = 0o644
    owner: int = 0
    link: str | None = None


def tree(folder):
    """All that is below a folder, as entries: executables 755, other files 644."""
    for path in sorted(Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            yield Entry(name, link=str(path.readlink()))
        elif path.is_dir():
            yield Entry(name, mode=0o755)
        else:
            yield Entry(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)


def tar(entries, epoch, prefix=""):
    """A tar of these entries, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in entries:
            info = tarfile.TarInfo(prefix + entry.name)
            info.mtime, info.mode, info.uid, info.gid = epoch, entry.mode, entry.owner, entry.owner
            if entry.link is not None:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.content)
            archive.addfile(info, None if entry.content is None else io.BytesIO(entry.content))
    return out.getvalue()


def gz(data):
    """Without a name and a time of its own."""
    return gzip.compress(data, 9, mtime=0)


def zipped(entries, epoch):
    """A zip of files, in this order."""
    out, when = io.BytesIO(), time.gmtime(max(epoch, 315532800))[:6]  # a zip knows no time before 1980
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, when)
            info.external_attr = (0o100000 | entry.mode) << 16
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            archive.writestr(info, entry.content)
    return out.getvalue()


def sha256(data):
    return hashlib.sha256(data).hexdigest()
