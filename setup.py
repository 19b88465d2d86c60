"""Build the C core and its binding. Environment variables select the variant:

FLOWBUF_DEBUG=1           disable optimisation, enable assertions
FLOWBUF_SANITIZE=1        enable the address and undefined-behaviour sanitizers; run Python with their
                          library preloaded
FLOWBUF_SANITIZE=thread   enable ThreadSanitizer; run Python with its library preloaded
FLOWBUF_COVERAGE=1        enable gcov counters
"""

import os
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext


def choose_sanitizers(kind: str) -> list[str]:
    """Return the compiler flags of the sanitizers. ext/Makefile has the additional flags that gcc needs."""
    if kind == "thread":
        return ["-fsanitize=thread"]
    narrow = subprocess.run(
        ["make", "-s", "-C", "ext", "narrow"], check=True, capture_output=True, text=True
    ).stdout
    return ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", *narrow.split()]


def choose_flags() -> tuple[list[str], list[str]]:
    """Return the flags of the compiler and of the linker."""
    common = ["-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"]
    if kind := os.environ.get("FLOWBUF_SANITIZE"):
        sanitizers = choose_sanitizers(kind)
        return [*common, "-O1", "-g", "-UNDEBUG", *sanitizers], sanitizers
    if os.environ.get("FLOWBUF_COVERAGE"):
        return [*common, "-O0", "-g", "-UNDEBUG", "--coverage"], ["--coverage"]
    if os.environ.get("FLOWBUF_DEBUG"):
        return [*common, "-O0", "-g", "-UNDEBUG"], []
    return [*common, "-O2", "-DNDEBUG"], []


class BuildInParallel(build_ext):
    """Compile outdated files of the extension, on all processors.

    Each set of flags has its own folder of objects. A changed header outdates all files.
    """

    def build_extension(self, ext: Extension) -> None:
        compile_some = self.compiler.compile
        kind = zlib.crc32(" ".join([*ext.extra_compile_args, self.compiler.compiler_so[0]]).encode())
        self.build_temp = f"build/objects/{sys.implementation.cache_tag}-{kind:08x}"
        shared = max(Path(name).stat().st_mtime for name in [*ext.depends, "setup.py"])

        def is_fresh(source: str, name: str) -> bool:
            made = Path(name)
            return made.exists() and made.stat().st_mtime > max(shared, Path(source).stat().st_mtime)

        def compile_one(source: str, *args: Any, **options: Any) -> list[str]:
            names: list[str] = self.compiler.object_filenames([source], output_dir=options.get("output_dir"))
            return names if is_fresh(source, names[0]) else compile_some([source], *args, **options)

        def compile_all(sources: list[str], *args: Any, **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_one(source, *args, **options), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = compile_all
        super().build_extension(ext)


compile_flags, link_flags = choose_flags()
folders = ("core", "generate", "binding")
sources = sorted(path.as_posix() for folder in folders for path in Path("ext", folder).rglob("*.c"))
headers = sorted(path.as_posix() for folder in folders for path in Path("ext", folder).rglob("*.h"))

setup(
    packages=[*find_packages("src"), "flowbuf.schemas"],
    cmdclass={"build_ext": BuildInParallel},
    ext_modules=cythonize(
        [
            Extension(
                "flowbuf._core",
                ["ext/_core.pyx", *sources],
                include_dirs=["ext"],
                depends=headers,
                extra_compile_args=compile_flags,
                extra_link_args=link_flags,
            )
        ],
        include_path=["ext"],
    ),
)
