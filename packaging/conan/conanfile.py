"""A recipe for this checkout: conan create packaging/conan"""

import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Freehold(ConanFile):
    name = "freehold"
    license = "MIT OR Apache-2.0"
    description = "A memory allocator for programs with many threads"
    settings = "os", "arch", "compiler", "build_type"

    def _root(self):
        return os.path.dirname(os.path.dirname(self.recipe_folder))

    def set_version(self):
        header = load(self, os.path.join(self._root(), "include/freehold/freehold.h"))
        self.version = re.search(r'define FH_VERSION "(.*)"', header)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE-*", "cmake/*", "include/*", "recorder/*", "src/*"):
            copy(self, pattern, self._root(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FREEHOLD_TESTS"] = False
        toolchain.cache_variables["FREEHOLD_WERROR"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE-*", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The package has its own FreeholdConfig.cmake, with four targets.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/Freehold"]
        self.cpp_info.libs = ["freehold"]
        self.cpp_info.system_libs = ["pthread"]
