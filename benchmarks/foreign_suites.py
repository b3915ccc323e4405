"""Runs test suites of other projects that accept any namespace of the array API standard on the engine.

    python benchmarks/foreign_suites.py [scipy scikit-learn einops] [--modules MODULE …] [--python PATH] [--failures]

Runs the modules in `SUITES` of the installed packages (their wheels contain the tests) with `foreign_plugin.py`, which
makes the engine their namespace. Prints how many tests of each module pass, fail and are skipped. Only tests that take
a namespace run. `--modules` names other modules of one suite; `--failures` lists failed tests with their errors. The
interpreter `--python` needs the packages, pytest, hypothesis and the engine's dependencies; the engine is this
checkout's. The exit code is 3 if a run ended before its tests did, else 0: these suites set no bar, because many tests
are about dtypes and namespaces of particular libraries. SciPy's iterations whose arrays shrink at each step
(`scipy.differentiate`, `scipy.optimize.elementwise`, `tanhsinh`) take minutes, because each shape is its own program;
they run only with `--modules`.
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
    """Test modules of a package, pytest options that select tests with a namespace, and environment variables."""

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
    """Runs the suites and prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (default: all)")
    parser.add_argument("--modules", nargs="+", default=[], help="test modules of one suite, instead of the default")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the packages")
    parser.add_argument("--failures", action="store_true", help="list failed tests with the first line of the error")
    given = parser.parse_args()
    names = given.suites or list(SUITES)
    if unknown := set(names) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; choose from {', '.join(SUITES)}")
    if given.modules and len(names) != 1:
        parser.error("--modules needs exactly one suite")
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
