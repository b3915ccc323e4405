"""The search for good values: Optuna's samplers, pruners and journal storage.

A killed sweep loses and repeats no trial: a trial's values depend only on the journal and the trial's number. Trials
that were running when the process was killed continue with the same values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import TrainerError
from trainer.rundir.sweeps import COMPLETE, FAILED, PRUNED, RUNNING, SweepPaths, Trial

try:
    import optuna
    from optuna.samplers import BaseSampler
    from optuna.storages.journal import JournalFileBackend
except ImportError as missing:
    raise TrainerError(
        "sweeps need Optuna, which is not installed", found=str(missing), hint="pip install 'lucid-trainer[sweep]'"
    ) from missing

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from trainer.configs import ParameterConfig, SweepConfig

STUDY = "sweep"
LEAST_FOR_IMPORTANCE = 8
"""Minimum number of complete trials for an estimate of the importance of parameters."""

_STATES = {"RUNNING": RUNNING, "COMPLETE": COMPLETE, "PRUNED": PRUNED, "FAIL": FAILED, "WAITING": RUNNING}


class Search:
    """The trials of a sweep, in Optuna's journal.

    Args:
        paths: the sweep's folder, locked by this process.
        sweep: the section of the config.
        mode: max if a higher metric is better, min if a lower one is.
        seed: seed of the draws.

    Raises:
        TrainerError: the journal is damaged or belongs to another sweep.
    """

    def __init__(self, paths: SweepPaths, sweep: SweepConfig, *, mode: str, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._sweep, self._seed, self._mode = sweep, seed, mode
        self._study = _study(paths, sweep, mode)

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return [self._trial(frozen) for frozen in self._study.get_trials(deepcopy=False)]

    def unfinished(self) -> list[Trial]:
        """The trials that have no result yet, with all their values."""
        numbers = [trial.number for trial in self.trials if trial.state == RUNNING]
        for number in numbers:
            self._study.sampler = self._sampler(number)
            self._draw(self._live(number))
        return [self._trial(self._frozen(number)) for number in numbers]

    def ask(self) -> Trial:
        """A new trial with its values."""
        number = len(self._study.get_trials(deepcopy=False))
        self._study.sampler = self._sampler(number)
        self._draw(self._study.ask())
        return self._trial(self._frozen(number))

    def is_pruned(self, number: int, values: Sequence[float]) -> bool:
        """Whether the trial should be stopped, after these values of the metric: one for each validation."""
        if self._sweep.method not in ("halving", "hyperband"):
            return False
        known = self._frozen(number).intermediate_values
        latest = {index: value for index, value in enumerate(values, start=1) if index not in known}
        if not latest:
            return False
        trial = self._live(number)
        for index, value in latest.items():
            trial.report(value, index)
            if trial.should_prune():
                return True
        return False

    def complete(self, number: int, value: float) -> None:
        """Records the result of a trial."""
        self._study.tell(number, value)

    def prune(self, number: int) -> None:
        """Records that a trial was stopped early."""
        self._study.tell(number, state=optuna.trial.TrialState.PRUNED)

    def fail(self, number: int, reason: str) -> None:
        """Records that a trial failed."""
        self._live(number).set_user_attr("reason", reason)
        self._study.tell(number, state=optuna.trial.TrialState.FAIL)

    def importance(self) -> dict[str, float]:
        """The fraction of the metric's variation that each parameter explains (PED-ANOVA, Watanabe et al. 2023).

        Empty with few complete trials, or if their metrics are equal.
        """
        complete = [one for one in self.trials if one.state == COMPLETE]
        if len(complete) < LEAST_FOR_IMPORTANCE or len({one.value for one in complete}) < 2:
            return {}
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return dict(optuna.importance.get_param_importances(self._study, evaluator=evaluator))

    def _frozen(self, number: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number]

    def _trial(self, frozen: FrozenTrial) -> Trial:
        state = _STATES[frozen.state.name]
        values = {
            name: decoded(self._sweep.parameters[name], frozen.params[name])
            for name in self._sweep.parameters
            if name in frozen.params
        }
        reported = frozen.intermediate_values.values()
        value = frozen.value if state == COMPLETE else None
        if value is None and reported:
            value = max(reported) if self._mode == "max" else min(reported)
        return Trial(frozen.number, state, values, value, frozen.user_attrs.get("reason", ""))

    def _live(self, number: int) -> optuna.trial.Trial:
        return optuna.trial.Trial(self._study, self._frozen(number)._trial_id)

    def _draw(self, trial: optuna.trial.Trial) -> None:
        """Draws all values that the trial doesn't have yet: a process may be killed between two draws."""
        for place, (name, parameter) in enumerate(self._sweep.parameters.items(), start=1):
            self._study.sampler = self._sampler(trial.number, place)
            form = distribution(parameter)
            if isinstance(form, optuna.distributions.CategoricalDistribution):
                trial.suggest_categorical(name, form.choices)
            elif isinstance(form, optuna.distributions.IntDistribution):
                trial.suggest_int(name, form.low, form.high, step=form.step, log=form.log)
            else:
                trial.suggest_float(name, form.low, form.high, step=form.step, log=form.log)

    def _sampler(self, number: int, place: int = 0) -> BaseSampler:
        """The sampler of a trial, and of its parameter number `place` (from 1; 0: none).

        Its seed includes both numbers: after a kill, no draw is repeated, and the remaining draws are unchanged.
        """
        seed = int(np.random.SeedSequence([self._seed, number, place]).generate_state(1)[0])
        if self._sweep.method == "grid":
            return Grid(list(self._sweep.grid()))
        if self._sweep.method == "random":
            return optuna.samplers.RandomSampler(seed=seed)
        return optuna.samplers.TPESampler(seed=seed, constant_liar=self._sweep.parallel > 1)


class Grid(BaseSampler):
    """Samples every combination once: the trial's number selects it.

    Optuna's own grid records visited combinations in attributes of trials, which a kill between two writes loses.
    """

    def __init__(self, points: Sequence[Mapping[str, Any]]) -> None:
        self._points = points

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Returns an empty space: no parameters are drawn jointly."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Returns no values: no parameters are drawn jointly."""
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The value of the trial's combination."""
        value = self._points[trial.number][param_name]
        return encoded(value) if isinstance(param_distribution, optuna.distributions.CategoricalDistribution) else value


def distribution(
    parameter: ParameterConfig,
) -> (
    optuna.distributions.CategoricalDistribution
    | optuna.distributions.IntDistribution
    | optuna.distributions.FloatDistribution
):
    """Converts a parameter to a distribution of Optuna."""
    if parameter.values is not None:
        return optuna.distributions.CategoricalDistribution([encoded(value) for value in parameter.values])
    assert parameter.low is not None and parameter.high is not None
    if parameter.is_integer:
        step = int(parameter.step or 1)
        return optuna.distributions.IntDistribution(int(parameter.low), int(parameter.high), parameter.log, step)
    return optuna.distributions.FloatDistribution(parameter.low, parameter.high, parameter.log, parameter.step)


def encoded(value: Any) -> str:
    """A value of a list as text: Optuna's categories are scalars, and 1, 1.0 and true are equal in Python."""
    return json.dumps(value)


def decoded(parameter: ParameterConfig, value: Any) -> Any:
    """Converts a value of Optuna back to the parameter's value."""
    return value if parameter.values is None else json.loads(value)


def _study(paths: SweepPaths, sweep: SweepConfig, mode: str) -> Study:
    _repair(paths)
    try:
        backend = JournalFileBackend(str(paths.journal))
        study = optuna.create_study(
            study_name=STUDY,
            storage=optuna.storages.JournalStorage(backend),
            direction="maximize" if mode == "max" else "minimize",
            load_if_exists=True,
            pruner=_pruner(sweep.method),
        )
        identity = json.dumps(
            {name: repr(distribution(parameter)) for name, parameter in sweep.parameters.items()} | {"mode": mode}
        )
        known = study.user_attrs.get("identity")
        if known is None and not study.get_trials(deepcopy=False):
            study.set_user_attr("identity", identity)
        elif known != identity:
            raise TrainerError(
                "the journal belongs to another sweep", where=str(paths.journal),
                expected="the parameters of sweep.yaml", hint="Give the sweep another --name.",
            )  # fmt: skip
    except (ValueError, KeyError, OSError) as error:
        raise TrainerError(
            "the journal of the sweep is damaged", where=str(paths.journal), found=str(error),
            hint="Give the sweep another --name; its finished runs stay readable.",
        ) from error  # fmt: skip
    return study


def _repair(paths: SweepPaths) -> None:
    """Removes a killed process's lock of the journal, and an incomplete last line."""
    for left in paths.root.glob(f"{paths.journal.name}.*"):
        left.unlink(missing_ok=True)
    if paths.journal.exists():
        with open(paths.journal, "r+b") as file:
            content = file.read()
            if not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)


def _pruner(method: str) -> optuna.pruners.BasePruner:
    """Halving (Jamieson and Talwalkar 2016, asynchronous: Li et al. 2020) and Hyperband (Li et al. 2018)."""
    if method == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=1)
    return optuna.pruners.HyperbandPruner() if method == "hyperband" else optuna.pruners.NopPruner()
