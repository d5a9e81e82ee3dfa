"""``tune``: find an artifact's fastest settings, among those that change only the speed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import enginebay as eb
from enginebay.authors import Steps
from enginebay.authors.arrays import compare_outputs
from enginebay.authors.artifacts import Manifest, load_request, staging
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
    from enginebay.authors.arrays import NumpyArray
    from enginebay.authors.artifacts import LoadRequest
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow

    Arrays = Mapping[str, NumpyArray]

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
    of the ratio of the speeds is above 1. After its last call, its outputs must be those of the
    artifact as it is, at the batch size of the search. At the end, the best setting is measured
    again together with the same setting without each of its parameters: a parameter that does not
    make it faster in this measurement too is dropped. If one is left, an artifact is written. It
    contains ``tuning.json``, the result.

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
        ArtifactExistsError: ``work_dir`` already exists, or is inside an artifact.
        NotVerifiedError: The artifact as it is is not verified, or its recorded verdict is another
            and no tolerance was passed.

    Example:
        >>> import enginebay as eb, enginebay_lab as lab, torch
        >>> made = eb.deploy(torch.nn.ReLU(), torch.ones(1, 3))  # doctest: +SKIP
        >>> lab.tune(made.artifact, work_dir="faster").outcome  # doctest: +SKIP
        'no setting is faster beyond the noise; nothing written'
    """
    command = python_call()
    search = Search(artifact, params, latency_ms, batches, duration, verify)
    return search.run(work_dir, overwrite, watch, command)


class Setting(NamedTuple):
    """A setting: the artifact as it is or one with other parameters built in, and how it is loaded.

    ``params`` are all parameters that differ from the artifact as it is, and ``at_load`` those that
    are not built into :attr:`artifact`.
    """

    artifact: eb.Artifact
    params: dict[str, Any]
    at_load: dict[str, Any]
    request: LoadRequest

    @property
    def name(self) -> str:
        """The name in rows and messages."""
        return name_setting(self.params)


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
        self._as_it_is = Setting(self._artifact, {}, {}, load_request(self._artifact))
        self._inputs = default_inputs(self._artifact)
        self._notes: dict[str, None] = {}  # as an ordered set
        for size in sizes:
            stacked = stack_batch(self._inputs, self._artifact.inputs, size)  # or it is fixed
            self._note_beyond(stacked)
        self._batches = sizes or (count_items(self._inputs),)
        self._values = self._find_values(params)
        self._machine = this_machine()
        self._rows: dict[tuple[str, int], TuningRow] = {}
        self._verified: dict[str, TuningRow] = {}
        # None for one that failed.
        self._trials: dict[str, Setting | None] = {self._as_it_is.name: self._as_it_is}
        self._engines: dict[str, eb.Artifact] = {}  # by the parameters that are built in

    def _note_beyond(self, inputs: Mapping[str, NumpyArray]) -> None:
        verification = self._artifact.manifest.verification
        known = verification and verification.basis and verification.basis.range
        if known and (beyond := known.find_beyond(inputs)):
            note = (
                f"{'; '.join(beyond)}: there the settings are compared with the artifact as it is"
            )
            self._notes[note] = None

    def _find_values(self, params: Mapping[str, Sequence[object]] | None) -> Mapping[str, Any]:
        """Return the values to try, or a function that returns them, by parameter."""
        declared = self._backend.Params.speed_values
        if params is None:
            return declared
        found = {}
        for name, values in params.items():
            check_shared_param(name, [self._backend])
            if name not in declared:
                raise ParamsError(
                    f"parameter '{name}' of {self._backend.name} may change more than the speed",
                    hint=f"parameters to try: {', '.join(declared) or 'none'}",
                )
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise ParamsError(f"the values of '{name}' are {values!r}, expected a list")
            found[name] = [*values]
            for value in found[name]:  # raises if the value is invalid
                self._backend.params_from({**self._artifact.manifest.params, name: value})
        return found

    def run(
        self,
        target: str | Path,
        overwrite: bool,
        watch: Callable[[Step], None] | None,
        command: str,
    ) -> Tuning:
        """Search, and write the artifact ``target`` if a setting is faster; return the result."""
        self._check_recorded()
        steps = Steps(watch)
        found: list[tuple[Setting, int]] = []
        # The folder of the new artifact first: what is wrong with it shows before the search.
        with (
            staging(target, overwrite=overwrite) as stage,
            TemporaryDirectory(prefix="enginebay-tune-") as name,
        ):
            folder = Path(name)
            with steps("verify"):
                self._check_verified(self._verify(self._as_it_is))
            for batch in self._batches:
                with steps(f"batch {batch}" if len(self._batches) > 1 else "search") as set_detail:
                    best = self._find_best(batch, folder, set_detail)
                    set_detail(best.name)
                found.append((best, batch))
            with steps("measure again") as set_detail:
                chosen, row = self._choose(found, folder, set_detail)
            is_faster = bool(chosen and chosen.params)
            tuning = self.result(
                outcome=self._describe(row),
                chosen=row,
                written=str(stage.target) if is_faster else None,
                command=command,
            )
            if chosen and row and is_faster:
                self._artifact.check_current()
                manifest = self._write_files(
                    chosen.artifact,
                    stage.dir,
                    tuning=tuning,
                    params=chosen.request.params,
                    verification=row.verification,
                    receipt=row.speed.receipt if row.speed else None,
                    command=command,
                )
                stage.publish(manifest)
        return tuning

    def result(self, outcome: str = "ended early; nothing written", **fields: Any) -> Tuning:
        """Return the rows so far as a result, those of the artifact as it is first."""
        rows = tuple(sorted(self._rows.values(), key=lambda row: bool(row.params)))
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

    def _check_recorded(self) -> None:
        """Check that the artifact was verified, unless the caller has other tolerances."""
        recorded, options = self._artifact.manifest.verification, self._options
        is_default = options.rtol is None and options.atol is None
        if is_default and recorded and recorded.verdict in ("mismatched", "crashed"):
            self._check_verified(TuningRow.of_verdict({}, recorded))

    def _check_verified(self, row: TuningRow) -> None:
        if row.verification and row.verdict != "verified":
            raise NotVerifiedError(
                f"'{self._artifact.path}' is {row.verdict} as it is: {row.reason}",
                verdict=row.verification,
                hint="deploy the model again, or pass the tolerances of its deployment",
            )

    def _find_best(self, batch: int, folder: Path, set_detail: Callable[[str], None]) -> Setting:
        """Search one parameter after the other, each with the best values so far."""
        best = self._as_it_is
        if not self._values:
            self._measure([best], batch, set_detail)
        for name in self._values:
            trials = list(self._make_trials(best, name, folder, set_detail))
            if trials or (best.name, batch) not in self._rows:
                speeds = self._measure([best, *trials], batch, set_detail)
                gains = [(_find_gain(speeds, trial, best), trial) for trial in trials]
                gain, fastest = max(gains, key=itemgetter(0), default=(0.0, best))
                best = fastest if gain else best
        return best

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
            if trial := self._try(params, folder, set_detail):
                yield trial

    def _try(
        self, params: dict[str, Any], folder: Path, set_detail: Callable[[str], None]
    ) -> Setting | None:
        """Return the setting with these parameters, verified; None if it is not."""
        label = name_setting(params)
        if label not in self._trials:
            set_detail(f"verify {label}")
            self._trials[label] = None
            try:
                trial = self._make_setting(params, folder)
                if self._verify(trial).verdict == "verified":
                    self._trials[label] = trial
            except EnginebayError as err:
                self._rows[label, 0] = TuningRow(params=params, verdict="failed", reason=str(err))
        return self._trials[label]

    def _make_setting(self, params: dict[str, Any], folder: Path) -> Setting:
        """Return the setting with these parameters, after a build if one of them is built in."""
        run_time = self._backend.params_from(self._artifact.manifest.params | params)
        at_load = {
            name: getattr(run_time, name) for name in params if name in run_time.run_time_fields
        }
        built = {name: value for name, value in params.items() if name not in at_load}
        key = name_setting(built)
        if built and key not in self._engines:
            self._engines[key] = self._convert(built, folder)
        engine = self._engines[key] if built else self._artifact
        return Setting(engine, params, at_load, load_request(engine, params=at_load or None))

    def _convert(self, built: Mapping[str, Any], folder: Path) -> eb.Artifact:
        """Build an engine with other parameters from the artifact's IR."""
        assert self._artifact.ir_file
        number, own = len(list(folder.iterdir())), self._artifact.manifest
        params = self._backend.params_from(own.params | dict(built))
        converted = eb.convert(
            self._artifact.ir_file,
            backend=self._backend.name,
            params=params,
            work_dir=folder / f"{number}-engine",
            timeout=self._options.timeout,
        )
        # With the verdict as it is, whose basis the verdict on this engine will have.
        with staging(folder / str(number)) as stage:
            manifest = self._write_files(
                converted, stage.dir, params=params.to_mapping(), verification=own.verification
            )
            return stage.publish(manifest)

    def _write_files(
        self, engine: eb.Artifact, folder: Path, *, tuning: Tuning | None = None, **record: Any
    ) -> Manifest:
        """Write the files of an engine, and all else of the artifact as it is.

        Returns:
            The manifest for the new artifact, with the fields in ``record``.
        """
        own = self._artifact
        for each in (engine, own):
            for file in each.manifest.files:
                is_other = each is not engine and file.path in own.manifest.model_files
                path = folder / file.path
                if not (is_other or path.exists() or file.path == TUNING_FILE):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(each.path / file.path, path)
        if tuning:
            data = msgspec.json.format(msgspec.json.encode(tuning), indent=2)
            write_whole(folder / TUNING_FILE, data + b"\n")
        model = {name: getattr(own.manifest, name) for name in _OF_THE_MODEL}
        fields = msgspec.structs.asdict(engine.manifest) | model | record
        del fields["created"]  # now
        # The recipe of deploy would build another artifact.
        return Manifest(**(fields | {"recipe": None, "runs": ()}))

    def _verify(self, setting: Setting) -> TuningRow:
        """Return a row with the verdict on a setting."""
        with quiet_verdict():
            found = eb.verify(setting.artifact, options=self._options, params=setting.at_load)
        row = self._verified[setting.name] = TuningRow.of_verdict(setting.params, found)
        if row.reason:
            self._rows[setting.name, 0] = row
        return row

    def _measure(
        self, settings: Sequence[Setting], batch: int, set_detail: Callable[[str], None]
    ) -> dict[str, BenchmarkRow]:
        """Measure settings in turn with the artifact as it is; return the right ones' speeds."""
        subjects = {each.name: each for each in (self._as_it_is, *settings)}
        specs = [
            describe_artifact(name, each.request, self._inputs, "", each.at_load)
            for name, each in subjects.items()
        ]
        journal = Journal(None, LINE_KIND)
        run = InterleavedRun(specs, batch, 1, timeout=self._options.timeout, journal=journal)
        speeds = {
            row.name: row for row in run.measure_rows(self._duration, set_detail, outputs=True)
        }
        baseline = self._as_it_is.name
        if speeds[baseline].failure or baseline not in run.outputs:
            raise run.errors[0]
        windows = speeds[baseline].windows
        for name, each in subjects.items():
            row, speed = self._verified[name], speeds[name]
            changes: dict[str, Any] = {}
            if speed.failure:
                changes = {"verdict": "failed", "reason": speed.failure}
            elif difference := self._find_difference(run.outputs[baseline], run.outputs[name]):
                changes = {"verdict": "mismatched", "reason": f"batch {batch}: {difference}"}
                self._trials[name] = None  # not for another batch size either
            self._rows[name, batch] = msgspec.structs.replace(
                row,
                speed=speed,
                ratio=compute_ratio(speed.windows, windows) if each.params else None,
                **changes,
            )
            if changes:
                del speeds[name]
        return speeds

    def _find_difference(self, expected: Arrays, found: Arrays) -> str:
        """Describe how outputs differ from those of the artifact as it is; "" if they do not.

        Outputs that a comparator compares are left out.
        """
        sets = {name for each in self._artifact.manifest.comparators for name in each.outputs}
        outputs = compare_outputs(
            {name: array for name, array in expected.items() if name not in sets},
            {name: array for name, array in found.items() if name not in sets},
            precision=self._as_it_is.request.allowed_precision(),
            rtol=self._options.rtol,
            atol=self._options.atol,
        )
        return next((output.describe() for output in outputs if not output.passed), "")

    def _choose(
        self,
        found: Sequence[tuple[Setting, int]],
        folder: Path,
        set_detail: Callable[[str], None],
    ) -> tuple[Setting | None, TuningRow | None]:
        """Return the setting with the most items per second within the latency, with its row."""

        def find_rate(pair: tuple[Setting, int]) -> float:
            speed = self._rows[pair[0].name, pair[1]].speed
            return (speed and speed.items_per_second) or 0.0

        for best, batch in sorted(found, key=find_rate, reverse=True):
            confirmed = self._confirm(best, batch, folder, set_detail)
            row = self._rows[confirmed.name, batch]
            if self._latency_ms is None or (row.latency or 0.0) * 1000 <= self._latency_ms:
                return confirmed, row
        return None, None

    def _confirm(
        self, best: Setting, batch: int, folder: Path, set_detail: Callable[[str], None]
    ) -> Setting:
        """Return a setting without the parameters that do not make it faster if measured again.

        The fastest of many is partly the luckiest.
        """
        while best.params:
            others = [
                self._try({k: v for k, v in best.params.items() if k != name}, folder, set_detail)
                for name in best.params
            ]
            trials = filter(None, (self._trials[best.name], *others))
            speeds = self._measure(list(trials), batch, set_detail)
            right = [each for each in others if each and each.name in speeds]
            as_fast = [each for each in right if not _find_gain(speeds, best, each)]
            if best.name in speeds and not as_fast:
                break
            rates = [(speeds[each.name].items_per_second or 0.0, each) for each in as_fast]
            _, best = max(rates, key=itemgetter(0), default=(0.0, self._as_it_is))
        return best

    def _describe(self, row: TuningRow | None) -> str:
        limit = "" if self._latency_ms is None else f" within {self._latency_ms:g} ms"
        if row is None:
            least = human_seconds(min(row.latency for row in self._rows.values() if row.latency))
            return f"no call is{limit}: the fastest takes {least}; nothing written"
        text = "no setting is faster beyond the noise; nothing written"
        if not any(each.params for each in self._rows.values()):
            text = "no other setting was tried; nothing written"
        if row.params and row.ratio:
            text = f"{row.label} is {row.ratio.describe()} as fast as the artifact as it is"
        if row.speed and (limit or len(self._batches) > 1):
            rate, call = row.speed.describe_items_per_second(), row.speed.describe_call()
            text = f"batch {row.speed.batch}: {rate} items/s, {call} a call{limit}; {text}"
        return text


def _find_gain(speeds: Mapping[str, BenchmarkRow], faster: Setting, slower: Setting) -> float:
    """Return how many times as fast a setting is as another; 0 if it is not, beyond the noise."""
    if faster.name not in speeds or slower.name not in speeds:
        return 0.0
    ratio = compute_ratio(speeds[faster.name].windows, speeds[slower.name].windows)
    return ratio.value if ratio and ratio.low > 1 else 0.0
