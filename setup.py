"""Build the C core and its binding. Environment variables select the variant:

FLOWBUF_DEBUG=1           disable optimisation, enable assertions
FLOWBUF_SANITIZE=1        enable the address and undefined-behaviour sanitizers; run Python with their
                          library preloaded
FLOWBUF_SANITIZE=thread   enable ThreadSanitizer; run Python with its library preloaded
FLOWBUF_COVERAGE=1        enable gcov counters
"""

import json
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

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def choose_sanitizers(kind: str) -> list[str]:
    """Return the compiler flags of the sanitizers. ext/Makefile has the additional flags that gcc needs."""
    if kind == "thread":
        return ["-fsanitize=thread"]
    narrow = subprocess.run(
        ["make", "-s", "--no-print-directory", "-C", "ext", "narrow"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", *narrow.split()]


def choose_flags() -> tuple[list[str], list[str]]:
    """Return the flags of the compiler and of the linker."""
    common = ["-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter", "-MMD"]
    common += ["-fopenmp-simd"]  # `#pragma omp simd` marks loops to vectorize; it links no library
    if kind := os.environ.get("FLOWBUF_SANITIZE"):
        sanitizers = choose_sanitizers(kind)
        return [*common, "-O1", "-g", "-UNDEBUG", *sanitizers], sanitizers
    if os.environ.get("FLOWBUF_COVERAGE"):
        return [*common, "-O0", "-g", "-UNDEBUG", "--coverage"], ["--coverage"]
    if os.environ.get("FLOWBUF_DEBUG"):
        return [*common, "-O0", "-g", "-UNDEBUG"], []
    return [*common, "-O2", "-g1", "-DNDEBUG"], []  # -g1: lines for backtraces; -g compiles a third slower


class BuildInParallel(build_ext):
    """Compile outdated files on all processors, and link the core as a static library into each module.

    Each set of flags has its own folder of objects. Beside an object, the compiler lists the files from which
    it was made (-MMD).
    """

    def build_extensions(self) -> None:
        kind = zlib.crc32(" ".join([*compile_flags, self.compiler.compiler_so[0]]).encode())
        self.build_temp = f"build/objects/{sys.implementation.cache_tag}-{kind:08x}"
        self.parallel = True
        compile_some = self.compiler.compile

        def compile_outdated(sources: list[str], output_dir: str, **options: Any) -> list[str]:
            def compile_one(source: str) -> str:
                (name,) = self.compiler.object_filenames([source], output_dir=output_dir)
                if not is_fresh(Path(name)):
                    compile_some([source], output_dir=output_dir, **options)
                return name

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(compile_one, sources))

        self.compiler.compile = compile_outdated
        library = self.build_core()
        for extension in self.extensions:
            extension.extra_objects = [library]
            extension.depends = [*headers, library]
        super().build_extensions()

    def build_core(self) -> str:
        """Return the path of the static library of the core."""
        objects = self.compiler.compile(
            core, output_dir=self.build_temp, include_dirs=["ext"], extra_postargs=compile_flags
        )
        library = Path(self.build_temp, self.compiler.library_filename("flowbuf_core"))
        newest = max(Path(name).stat().st_mtime for name in objects)
        if not library.exists() or library.stat().st_mtime < newest:
            library.unlink(missing_ok=True)  # an archive would keep the objects of removed files
            self.compiler.create_static_lib(objects, "flowbuf_core", output_dir=self.build_temp)
        return str(library)


def is_fresh(target: Path) -> bool:
    """Return True if an object exists, and is newer than all files from which it was made."""
    listed = target.with_suffix(".d")
    if not target.exists() or not listed.exists():
        return False
    made = target.stat().st_mtime
    files = [Path(name) for name in listed.read_text().partition(":")[2].replace("\\\n", " ").split()]
    return all(file.exists() and file.stat().st_mtime < made for file in [*files, Path("setup.py")])


def write_parsed_schemas() -> None:
    """Write the tables of each built-in schema as JSON, which loads ten times as fast as TOML.

    flowbuf.schema.loader uses them if the checksum is that of the TOML file.
    """
    for path in Path("schemas").glob("*.toml"):
        text = path.read_bytes()
        parsed = {"crc32": zlib.crc32(text), "tables": tomllib.loads(text.decode())}
        path.with_suffix(".json").write_text(json.dumps(parsed, separators=(",", ":")))


def find_files(folder: str, suffix: str) -> list[str]:
    return sorted(path.as_posix() for path in Path(folder).rglob(f"*{suffix}"))


BINDING = "src/flowbuf/_core"
compile_flags, link_flags = choose_flags()
native = ("ext/core", "ext/generate", "ext/net")  # without Python
core = [name for folder in native for name in find_files(folder, ".c")]
headers = [name for folder in (*native, BINDING) for name in find_files(folder, ".h")]

write_parsed_schemas()
setup(
    packages=[*find_packages("src"), "flowbuf.schemas"],
    cmdclass={"build_ext": BuildInParallel},
    ext_modules=cythonize(
        [
            Extension(
                ".".join(source.relative_to("src").with_suffix("").parts),
                [source.as_posix(), *(find_files(BINDING, ".c") if source.stem == "codec" else [])],
                include_dirs=["ext", BINDING],
                extra_compile_args=compile_flags,
                extra_link_args=link_flags,
            )
            for source in sorted(Path(BINDING).rglob("*.pyx"))
        ],
        include_path=["src"],
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "embedsignature": True,
        },
    ),
)
