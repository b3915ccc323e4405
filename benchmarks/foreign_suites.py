"""Test suites of other projects that take any namespace of the array API standard, against the engine.

    python benchmarks/foreign_suites.py [scipy scikit-learn einops] [--modules MODULE …] [--python PATH] [--failures]

runs the modules named below of the installed packages (their wheels hold the tests) with `foreign_plugin.py`, which
gives them the engine as their namespace, and prints how many tests of each module pass, fail and are skipped. Only
tests that take a namespace are run. `--modules` names others of one suite; `--failures` lists what failed and why.
The interpreter `--python` has the packages, pytest, hypothesis and what the engine needs; the engine is this
checkout's. The exit code is 3 where a run ended before its tests did, else 0: these suites are no bar, as many tests
are about dtypes and namespaces of particular libraries. SciPy's iterations whose arrays shrink at each step
(`scipy.differentiate`, `scipy.optimize.elementwise`, `tanhsinh`) take minutes, as each shape is a program of its own;
they are left to `--modules`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from array_api import Case, run_pytest, summary


@dataclass(frozen=True)
class Suite:
    """Modules of a package's tests, pytest's options that select those with a namespace, and variables."""

    modules: tuple[str, ...]
    options: tuple[str, ...]
    environment: dict[str, str]


SUITES = {
    "scipy": Suite(
        (
            "scipy.cluster.tests.test_vq",
            "scipy.constants.tests.test_constants",
            "scipy.fft.tests.test_basic",
            "scipy.fft.tests.test_fftlog",
            "scipy.fft.tests.test_helper",
            "scipy.fft.tests.test_real_transforms",
            "scipy.integrate.tests.test_quadrature",
            "scipy.linalg.tests.test_special_matrices",
            "scipy.signal.tests.test_windows",
            "scipy.special.tests.test_logsumexp",
            "scipy.stats.tests.test_entropy",
            "scipy.stats.tests.test_rank",
            "scipy.stats.tests.test_variation",
        ),
        ("-m", "array_api_backends"),
        {"SCIPY_ARRAY_API": "1"},
    ),
    "scikit-learn": Suite(
        (
            "sklearn.decomposition.tests.test_pca",
            "sklearn.linear_model.tests.test_ridge",
            "sklearn.metrics.tests.test_classification",
            "sklearn.metrics.tests.test_common",
            "sklearn.metrics.tests.test_pairwise",
            "sklearn.model_selection.tests.test_split",
            "sklearn.preprocessing.tests.test_data",
            "sklearn.preprocessing.tests.test_label",
            "sklearn.utils.tests.test_array_api",
            "sklearn.utils.tests.test_extmath",
            "sklearn.utils.tests.test_multiclass",
            "sklearn.utils.tests.test_validation",
        ),
        ("-k", "trainer"),
        {"SCIPY_ARRAY_API": "1"},
    ),
    "einops": Suite(
        (
            "einops.tests.test_einsum",
            "einops.tests.test_examples",
            "einops.tests.test_ops",
            "einops.tests.test_other",
            "einops.tests.test_packing",
        ),
        (),
        {"EINOPS_TEST_BACKENDS": "trainer.engine"},
    ),
}


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; all by default")
    parser.add_argument("--modules", nargs="+", default=[], help="test modules of one suite, instead of those named")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the packages")
    parser.add_argument("--failures", action="store_true", help="list what failed, with the first line of the error")
    given = parser.parse_args()
    names = given.suites or list(SUITES)
    if unknown := set(names) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    if given.modules and len(names) != 1:
        parser.error("--modules are those of one suite: name it")
    for name in names:
        suite = SUITES[name]
        everything: dict[str, Case] = {}
        for module in given.modules or suite.modules:
            arguments = ["--pyargs", module, "-p", "foreign_plugin", *suite.options]
            with tempfile.TemporaryDirectory() as folder:
                cases = run_pytest(arguments, Path(folder), suite.environment, given.python)
            everything |= cases
            print(f"  {module}: {summary(cases)}", flush=True)
            for test, case in cases.items():
                if given.failures and case.state == "failed":
                    print(f"    {test}: {case.reason}", flush=True)
        print(f"{name}: {summary(everything)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
