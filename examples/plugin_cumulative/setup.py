"""Builds the kernel with torch's own extension tools."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    ext_modules=[
        CppExtension(
            "cede_cumulative._kernel",
            ["src/cede_cumulative/kernel.cpp"],
            extra_compile_args=["-O3", "-g0"],
        )
    ],
    # ninja is a tool of its own, and there is one file to compile
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
