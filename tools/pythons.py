"""Finds a Python of a given version: on the PATH, among pyenv's, or unpacked from Debian packages.

Debian's newer releases have newer Pythons. Their packages are unpacked into a folder, nothing is
installed, and the interpreter runs with the C library it came with. That works without root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

SUITES = ("stable", "testing", "unstable")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ASK = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


class NotFoundError(Exception):
    """This Python could not be found or fetched; the message says why."""


def find(version: str, folder: Path) -> Path:
    """The interpreter of a version like "3.14"; packages that are needed are kept in `folder`."""
    for candidate in candidates(version):
        if answers(candidate) == version:
            return candidate
    return from_debian(version, folder.resolve())


def candidates(version: str) -> list[Path]:
    found = [Path(path) for name in (f"python{version}", "python3") if (path := shutil.which(name))]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return [*found, *sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)]


def answers(python: Path) -> str:
    """The version that it says it has; a shim of pyenv may exist and not run."""
    try:
        asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return asked.stdout.strip()


def mirror() -> str:
    """The Debian mirror of this machine."""
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for place in places:
        if place.suffix not in (".list", ".sources") or not place.is_file():
            continue
        for line in place.read_text().splitlines():
            if line.startswith(("deb ", "URIs:")) and (
                address := re.search(r"\bhttps?://\S*/debian/?(?=\s|$)", line)
            ):
                return address.group()
    raise NotFoundError("not installed, and apt has no Debian mirror to fetch it from")


def from_debian(version: str, folder: Path) -> Path:
    """Unpack the packages of the first Debian release that has this version."""
    root = folder / f"debian-python{version}"
    python = root / "usr" / "bin" / f"python{version}"
    if answers(python) == version:
        return python
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NotFoundError(f"not installed, and there is no {tool} to fetch it with")
    address = mirror()
    reasons = []
    for suite in SUITES:
        shutil.rmtree(root, ignore_errors=True)
        try:
            packages = download(address, suite, version, folder / f"apt-{suite}")
        except NotFoundError as error:
            reasons.append(f"{suite}: {error}")
            continue
        for package in packages:
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        wrap(python, root)
        if answers(python) == version:
            return python
        reasons.append(f"{suite}: unpacked, and it does not run")
    raise NotFoundError(f"not installed; of Debian, {'; '.join(reasons)}")


def download(address: str, suite: str, version: str, folder: Path) -> list[Path]:
    """The packages of this Python and of all it needs, as if nothing were installed.

    What the machine's own configuration of apt says (proxies, how old a mirror may be) holds.
    """
    state, cache, etc = folder / "state", folder / "cache", folder / "etc"
    for place in (state / "lists" / "partial", cache / "archives" / "partial", etc / "parts"):
        place.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (etc / "sources.list").write_text(f"deb [signed-by={KEYRING}] {address} {suite} main\n")
    (folder / "apt.conf").write_text(
        f'Dir::State "{state}"; Dir::State::status "{state}/status"; Dir::Cache "{cache}";\n'
        f'Dir::Etc::sourcelist "{etc}/sources.list"; Dir::Etc::preferences "{etc}/none";\n'
        f'Dir::Etc::sourceparts "{etc}/parts"; Dir::Etc::preferencesparts "{etc}/parts";\n'
        'APT::Sandbox::User ""; Acquire::Languages "none"; Debug::NoLocking "1";\n'
    )
    for archive in (cache / "archives").glob("*.deb"):
        archive.unlink()  # of another version
    install = ["install", "--download-only", "--yes", "--no-install-recommends"]
    for arguments in (["update"], [*install, f"python{version}"]):
        done = subprocess.run(
            ["apt-get", "-qq", *arguments],
            env={**os.environ, "APT_CONFIG": str(folder / "apt.conf")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            complaint = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
            raise NotFoundError(complaint[0][3:] if complaint else "apt-get failed")
    return sorted((cache / "archives").glob("*.deb"))


def wrap(python: Path, root: Path) -> None:
    """Put a script in its place that starts it with its own loader and libraries."""
    real = python.with_name(python.name + ".real")
    loaders = sorted(root.glob("usr/lib/*/ld-linux-*.so.*"))
    if not (python.is_file() and loaders):
        return
    python.rename(real)
    loader = loaders[0]
    python.write_text(
        f'#!/bin/sh\nexec "{loader}" --library-path "{loader.parent}" --argv0 "$0" "{real}" "$@"\n'
    )
    python.chmod(0o755)
