"""``tune``: find an artifact's fastest settings, among those that change only the speed."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import enginebay as eb
from enginebay.authors import Steps
from enginebay.authors.artifacts import check_target, load_request, staging
from enginebay.authors.files import write_whole
from enginebay.commands import human_seconds, python_call, quiet_verdict
from enginebay.errors import EnginebayError, NotVerifiedError, ParamsError
from enginebay_lab.journal import Journal
from enginebay_lab.measurement.batches import count_items, stack_batch
from enginebay_lab.measurement.benchmark_artifact import (
    check_numbers,
    collect_notes,
    default_inputs,
)
from enginebay_lab.measurement.benchmark_rows import LINE_KIND
from enginebay_lab.measurement.benchmark_subject import describe_artifact
from enginebay_lab.measurement.interleaved_run import InterleavedRun
from enginebay_lab.measurement.machine import this_machine
from enginebay_lab.measurement.statistics import compute_ratio
from enginebay_lab.shared_params import check_shared_param
from enginebay_lab.tuning.tuning import Tuning, TuningRow, name_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Step
    from enginebay.authors.artifacts import LoadRequest

#: The name of the file with the result in the new artifact.
TUNING_FILE = "tuning.json"
#: What a conversion from the IR does not know about the model.
_OF_THE_MODEL = (
    *("inputs", "outputs", "sizes", "data", "task", "comparators", "ir", "torch_version"),
    *("model", "weights", "reference_sha256"),
)


def tune(
    artifact: str | Path | eb.Artifact,
    *,
    work_dir: str | Path,
    params: Mapping[str, Sequence[object]] | None = None,
    latency_ms: float | None = None,
    batches: int | Sequence[int] = (),
    duration: float = 3.0,
    verify: eb.VerifyOptions | Mapping[str, object] | None = None,
    overwrite: bool = False,
    watch: Callable[[Step], None] | None = None,
) -> Tuning:
    """Find an artifact's fastest settings, and write them as a new artifact.

    The settings are the values in :attr:`enginebay.BackendParams.speed_values`, one parameter after
    the other, each with the best values so far. A setting is verified first, with the inputs and
    outputs that the artifact was verified with. The verified settings run in turn with the artifact
    as it is, see :func:`enginebay_lab.benchmark`, and one is taken if the 95 % confidence interval
    of the ratio of the speeds is above 1. At the end, the best setting and the artifact as it is
    are measured again: only if the best is faster in this measurement too, an artifact is written.
    It contains ``tuning.json``, the result.

    Args:
        artifact: A verified artifact: a folder, or the artifact that :func:`enginebay.deploy`
            returned. To try parameters that are built into its engine, it must contain its IR:
            ``enginebay deploy --keep-ir``.
        work_dir: The folder of the new artifact.
        params: Values of parameters to try instead, by name; only those that the backend's
            ``speed_values`` have.
        latency_ms: The largest median duration of a call in milliseconds. Of the batch sizes within
            this limit, the one with the most items per second is chosen.
        batches: Batch sizes, each searched separately; by default that of the artifact's inputs.
        duration: The longest time in seconds that each setting is measured.
        verify: Tolerances and time limit, see :func:`enginebay.verify`.
        overwrite: Replace an existing artifact.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: An argument is wrong, or the batch size is fixed; nothing was measured.
        ParamsError: A parameter is unknown, not in ``speed_values``, or has an invalid value.
        ArtifactError: The artifact is damaged, or bound to another engine or device.
        ArtifactExistsError: ``work_dir`` already exists.
        NotVerifiedError: The artifact as it is is not verified.

    Example:
        >>> import enginebay as eb, enginebay_lab as lab, torch
        >>> made = eb.deploy(torch.nn.ReLU(), torch.ones(1, 3))  # doctest: +SKIP
        >>> lab.tune(made.artifact, work_dir="faster").outcome  # doctest: +SKIP
        'no setting is faster beyond the noise; nothing written'
    """
    command = python_call()
    search = Search(artifact, params, latency_ms, batches, duration, verify)
    return search.run(check_target(work_dir, overwrite=overwrite), overwrite, watch, command)


class Setting(NamedTuple):
    """A setting: the artifact as it is or one with other parameters built in, and how it is loaded.

    ``params`` are all parameters that differ from the artifact as it is.
    """

    artifact: eb.Artifact
    params: dict[str, Any]
    request: LoadRequest

    @property
    def name(self) -> str:
        """The name in rows and messages."""
        return name_setting(self.params)

    @property
    def at_load(self) -> dict[str, Any]:
        """The parameters that differ, and are not built into :attr:`artifact`."""
        built = self.artifact.manifest.params
        return {k: v for k, v in self.params.items() if built.get(k) != self.request.params.get(k)}


class Search:
    """A search for faster settings, with the rows so far; see :func:`tune` for the arguments."""

    def __init__(
        self,
        artifact: str | Path | eb.Artifact,
        params: Mapping[str, Sequence[object]] | None,
        latency_ms: float | None,
        batches: int | Sequence[int],
        duration: float,
        verify: eb.VerifyOptions | Mapping[str, object] | None,
    ) -> None:
        sizes = (batches,) if isinstance(batches, int) else batches
        limits = {} if latency_ms is None else {"latency_ms": latency_ms}
        check_numbers({"duration": duration, **limits}, {"batches": sizes})
        self._options = eb.VerifyOptions.of(verify)
        self._duration, self._latency_ms = duration, latency_ms
        self._artifact = eb.open_artifact(artifact)
        self._backend = eb.get_backend(self._artifact.backend)
        self._as_it_is = Setting(self._artifact, {}, load_request(self._artifact))
        self._inputs = default_inputs(self._artifact)
        for size in sizes:
            stack_batch(self._inputs, self._artifact.inputs, size)  # raises if the size is fixed
        self._batches = sizes or (count_items(self._inputs),)
        self._values = self._find_values(params)
        self._machine = this_machine()
        self._rows: dict[tuple[str, int], TuningRow] = {}
        self._verified: dict[str, TuningRow] = {}
        self._trials: dict[str, Setting | None] = {}  # None for one that failed
        self._notes: dict[str, None] = {}  # as an ordered set

    def _find_values(self, params: Mapping[str, Sequence[object]] | None) -> Mapping[str, Any]:
        """Return the values to try, or a function that returns them, by parameter."""
        declared = self._backend.Params.speed_values
        for name, values in (params or {}).items():
            check_shared_param(name, [self._backend])
            if name not in declared:
                raise ParamsError(
                    f"parameter '{name}' of {self._backend.name} may change more than the speed",
                    hint=f"parameters to try: {', '.join(declared) or 'none'}",
                )
            for value in values:  # raises if the value is invalid
                self._backend.params_from({**self._artifact.manifest.params, name: value})
        return declared if params is None else params

    def run(
        self, target: Path, overwrite: bool, watch: Callable[[Step], None] | None, command: str
    ) -> Tuning:
        """Search, and write the artifact ``target`` if a setting is faster; return the result."""
        steps = Steps(watch)
        found: list[tuple[Setting, int]] = []
        with TemporaryDirectory(prefix="enginebay-tune-") as folder:
            with steps("verify"):
                self._check_verified()
            for batch in self._batches:
                best = self._as_it_is
                with steps(f"batch {batch}" if len(self._batches) > 1 else "search") as set_detail:
                    if not self._values:
                        self._measure([best], batch, set_detail)
                    for name in self._values:
                        trials = list(self._make_trials(best, name, Path(folder), set_detail))
                        if trials or (best.name, batch) not in self._rows:
                            best = self._measure([best, *trials], batch, set_detail)
                    set_detail(best.name)
                found.append((best, batch))
            with steps("measure again") as set_detail:
                chosen, row = self._choose(found, set_detail)
            is_faster = bool(chosen and chosen.params)
            tuning = self.result(
                outcome=self._describe(row),
                chosen=row,
                written=str(target) if is_faster else None,
                command=command,
            )
            if chosen and row and is_faster:
                self._artifact.check_current()
                self._publish(
                    chosen.artifact,
                    target,
                    overwrite=overwrite,
                    tuning=tuning,
                    params=chosen.request.params,
                    verification=row.verification,
                    receipt=row.speed.receipt if row.speed else None,
                    command=command,
                )
        return tuning

    def result(self, outcome: str = "ended early; nothing written", **fields: Any) -> Tuning:
        """Return the rows so far as a result."""
        rows = tuple(self._rows.values())
        notes = collect_notes(self._machine, [row.speed for row in rows if row.speed])
        return Tuning(
            artifact=str(self._artifact.path),
            rows=rows,
            outcome=outcome,
            latency_ms=self._latency_ms,
            machine=self._machine,
            notes=(*self._notes, *notes),
            **fields,
        )

    def _check_verified(self) -> None:
        row = self._verify(self._as_it_is)
        if row.verification and row.verdict != "verified":
            raise NotVerifiedError(
                f"'{self._artifact.path}' is {row.verdict} as it is: {row.reason}",
                verdict=row.verification,
                hint="deploy the model again, or pass the tolerances of its deployment",
            )

    def _make_trials(
        self, best: Setting, name: str, folder: Path, set_detail: Callable[[str], None]
    ) -> Iterator[Setting]:
        """Yield a setting for each other value of a parameter with which the engine is verified."""
        now = self._backend.params_from(best.request.params)
        values, seen = self._values[name], [getattr(now, name)]
        for value in values(now) if callable(values) else values:
            changed = now.replace(**{name: value})
            if getattr(changed, name) in seen:
                continue
            seen.append(getattr(changed, name))
            if name not in changed.run_time_fields and self._artifact.ir_file is None:
                self._notes[f"not tried: {name}, which requires an artifact with --keep-ir"] = None
                return
            params = best.params | {name: changed.to_mapping().get(name)}
            label = name_setting(params)
            set_detail(f"verify {label}")
            if label not in self._trials:
                self._trials[label] = None
                try:
                    trial = self._make_trial(best, params, name, changed, folder)
                    if self._verify(trial).verdict == "verified":
                        self._trials[label] = trial
                except EnginebayError as err:
                    row = TuningRow(params=params, verdict="failed", reason=str(err))
                    self._rows[label, 0] = row
            if found := self._trials[label]:
                yield found

    def _make_trial(
        self, best: Setting, params: dict[str, Any], name: str, all_params: Any, folder: Path
    ) -> Setting:
        """Return a setting that differs from the best in one parameter, after a build if needed."""
        if name in all_params.run_time_fields:
            at_load = best.at_load | {name: getattr(all_params, name)}
            return Setting(best.artifact, params, load_request(best.artifact, params=at_load))
        engine = self._convert(all_params, folder)
        return Setting(engine, params, load_request(engine))

    def _convert(self, params: eb.BackendParams, folder: Path) -> eb.Artifact:
        """Build an engine with other parameters from the artifact's IR."""
        assert self._artifact.ir_file
        number = len(list(folder.iterdir()))
        converted = eb.convert(
            self._artifact.ir_file,
            backend=self._backend.name,
            params=params,
            work_dir=folder / f"{number}-engine",
            timeout=self._options.timeout,
        )
        return self._publish(converted, folder / str(number), params=params.to_mapping())

    def _publish(
        self,
        engine: eb.Artifact,
        target: Path,
        *,
        overwrite: bool = False,
        tuning: Tuning | None = None,
        **record: Any,
    ) -> eb.Artifact:
        """Write an artifact with the files of an engine, and all else of the artifact as it is."""
        own = self._artifact
        with staging(target, overwrite=overwrite) as stage:
            for each in (engine, own):
                for file in each.manifest.files:
                    is_other = each is not engine and file.path in own.manifest.model_files
                    path = stage.dir / file.path
                    if not (is_other or path.exists() or file.path == TUNING_FILE):
                        path.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(each.path / file.path, path)
            if tuning:
                data = msgspec.json.format(msgspec.json.encode(tuning), indent=2)
                write_whole(stage.dir / TUNING_FILE, data + b"\n")
            model = {name: getattr(own.manifest, name) for name in _OF_THE_MODEL}
            # The recipe of deploy would build another artifact.
            manifest = msgspec.structs.replace(
                engine.manifest, **model, recipe=None, runs=(), **record
            )
            return stage.publish(manifest)

    def _verify(self, setting: Setting) -> TuningRow:
        """Return a row with the verdict on a setting."""
        with quiet_verdict():
            found = eb.verify(setting.artifact, options=self._options, params=setting.at_load)
        row = TuningRow(
            params=setting.params,
            verdict=found.verdict,
            reason="" if found.verdict == "verified" else found.summary(),
            verification=found,
        )
        self._verified[setting.name] = row
        if row.reason:
            self._rows[setting.name, 0] = row
        return row

    def _measure(
        self, settings: Sequence[Setting], batch: int, set_detail: Callable[[str], None]
    ) -> Setting:
        """Measure settings in turn; return the fastest, or the first if none is faster than it."""
        subjects = {each.name: each for each in (self._as_it_is, *settings)}
        specs = [
            describe_artifact(name, each.request, self._inputs, "", each.at_load)
            for name, each in subjects.items()
        ]
        journal = Journal(None, LINE_KIND)
        run = InterleavedRun(specs, batch, 1, timeout=self._options.timeout, journal=journal)
        speeds = {row.name: row for row in run.measure_rows(self._duration, set_detail)}
        baseline, first = speeds[self._as_it_is.name], speeds[settings[0].name]
        if baseline.failure:
            raise run.errors[0]
        for name, speed in speeds.items():
            ratio = compute_ratio(speed.windows, baseline.windows)
            changes = {"verdict": "failed", "reason": speed.failure} if speed.failure else {}
            self._rows[name, batch] = msgspec.structs.replace(
                self._verified[name],
                speed=speed,
                ratio=ratio if subjects[name].params else None,
                **changes,
            )
        ratios = {
            name: compute_ratio(speed.windows, first.windows) for name, speed in speeds.items()
        }
        faster = {name: ratio.value for name, ratio in ratios.items() if ratio and ratio.low > 1}
        return subjects[max(faster, key=faster.__getitem__)] if faster else settings[0]

    def _choose(
        self, found: Sequence[tuple[Setting, int]], set_detail: Callable[[str], None]
    ) -> tuple[Setting | None, TuningRow | None]:
        """Return the setting with the most items per second within the latency, with its row."""

        def find_rate(pair: tuple[Setting, int]) -> float:
            speed = self._rows[pair[0].name, pair[1]].speed
            return (speed and speed.items_per_second) or 0.0

        for best, batch in sorted(found, key=find_rate, reverse=True):
            if best.params:
                # Measured again: the fastest of many is partly the luckiest.
                best = self._measure([self._as_it_is, best], batch, set_detail)
            row = self._rows[best.name, batch]
            if self._latency_ms is None or (row.latency or 0.0) * 1000 <= self._latency_ms:
                return best, row
        return None, None

    def _describe(self, row: TuningRow | None) -> str:
        limit = "" if self._latency_ms is None else f" within {self._latency_ms:g} ms"
        if row is None:
            least = human_seconds(min(row.latency for row in self._rows.values() if row.latency))
            return f"no call is{limit}: the fastest takes {least}; nothing written"
        text = "no setting is faster beyond the noise; nothing written"
        if row.params and row.ratio:
            text = f"{row.label} is {row.ratio.describe()} as fast as the artifact as it is"
        if row.speed and (limit or len(self._batches) > 1):
            rate, call = row.speed.describe_items_per_second(), row.speed.describe_call()
            text = f"batch {row.speed.batch}: {rate} items/s, {call} a call{limit}; {text}"
        return text
