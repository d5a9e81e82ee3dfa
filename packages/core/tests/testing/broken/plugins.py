"""Faults in a plugin's information, checks, parameters and rewriters."""

from __future__ import annotations

from .plugin import Broken

BROKEN = {
    "its information names a dtype that does not exist": Broken(
        "test_it_says_what_it_is", "unknown dtype 'float33'", 'INFO["dtypes"] = ("float33",)'
    ),
    "it imports its engine when it is loaded": Broken(
        "test_loading_imports_no_engine", "loading the plugin imported onnx", "import onnx"
    ),
    "check-env is red and names no fix": Broken(
        "test_check_env_has_an_answer_for_every_tier",
        "check 'engine' failed without a fix",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import failed
            return failed(request.tier, "engine", found="nothing")
        """,
    ),
    "check-env is red, but it runs": Broken(
        "test_green_means_that_it_runs",
        r"check-env fails \(nothing\), and a small model is verified",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import failed
            return failed(request.tier, "engine", found="nothing")
        """,
    ),
    "it runs no model at all": Broken(
        "test_green_means_that_it_runs",
        "engine and device are available, but a tiny model does not run: .*no such engine",
        """
        def execute(self, feed):
            raise RuntimeError("no such engine")
        """,
    ),
    "one of its devices is made up": Broken(
        "test_a_device_that_is_not_here_is_red",
        "check-env finds the device 'npu', but a tiny model does not .*'npu' was requested",
        'INFO["devices"] = ("cpu", "npu")',
    ),
    "check-env looks for nothing": Broken(
        "test_a_runtime_that_does_not_import_is_red",
        "only check-env stage smoke reports the failed import of the engine",
        """
        @eb.hookimpl
        def check_env(request):
            return eb.EnvReport()
        """,
    ),
    "its receipt names another engine": Broken(
        "test_the_version_is_the_engines",
        "the receipt 'mine 0'",
        """
        receipt = property(lambda self: eb.Receipt(engine="mine 0", device="cpu"))
        """,
    ),
    "it adds a flag of its own": Broken(
        "test_every_flag_is_a_documented_field",
        "flag --colour is not a field",
        """
        class PARAMS(loopback.LoopbackParams):
            @classmethod
            def add_arguments(cls, parser, **options):
                super().add_arguments(parser, **options)
                parser.add_argument("--colour")
        """,
    ),
    "a parameter is lost in a manifest": Broken(
        "test_flags_config_and_manifest_agree",
        "assert",
        """
        class PARAMS(loopback.LoopbackParams):
            def to_mapping(self):
                return {k: v for k, v in super().to_mapping().items() if k != "gain"}
        """,
    ),
    "it cannot say what it lacks": Broken(
        "test_what_it_lacks_can_be_listed",
        "NotImplementedError: not yet",
        """
        @eb.hookimpl
        def unsupported_operators(request):
            raise NotImplementedError("not yet")
        """,
    ),
    "it returns no set of rewriters": Broken(
        "test_its_rewriters_can_be_listed",
        r"rewriters\(\) of 'broken' \(.*\) returned \{'torch.relu': None\}: expected a RewriterSet",
        """
        @eb.hookimpl
        def rewriters(request):
            return {"torch.relu": None}
        """,
    ),
    "its rewriters patch torch for good": Broken(
        "test_rewriters_leave_no_trace",
        r"the rewriters changed F\.gelu",
        """
        @eb.hookimpl
        def rewriters(request):
            import torch
            gelu = torch.nn.functional.gelu
            torch.nn.functional.gelu = lambda *args, **options: gelu(*args, **options)
            return eb.RewriterSet(backend=NAME)
        """,
    ),
    "its rewriters cannot be had": Broken(
        "test_its_rewriters_can_be_listed",
        r"rewriters\(\) of 'broken' \(temporary-broken 0\) raised RuntimeError: not today",
        """
        @eb.hookimpl
        def rewriters(request):
            raise RuntimeError("not today")
        """,
    ),
    "its parameters begin on a device that it lists last": Broken(
        "test_it_says_what_it_is",
        "the parameters' defaults are .*'cpu'.*'gpu'",
        'INFO["devices"] = ("gpu", "cpu")',
    ),
    "it calibrates for a precision that it does not list": Broken(
        "test_it_says_what_it_is",
        "int8: in calibrated, but not in precisions",
        'INFO["calibrated"] = ("int8",)',
    ),
    "it lists no IR": Broken(
        "test_it_says_what_it_is",
        "irs",
        'INFO["irs"] = ()',
    ),
    "it lists a dtype twice": Broken(
        "test_it_says_what_it_is",
        "dtypes has duplicates",
        'INFO["dtypes"] = ("float32", "float32")',
    ),
    "check-env raises": Broken(
        "test_green_means_that_it_runs",
        "check-env fails .* raised RuntimeError: not today.*, and a small model is verified",
        """
        @eb.hookimpl
        def check_env(request):
            raise RuntimeError("not today")
        """,
    ),
    "check-env finds a page": Broken(
        "test_check_env_has_an_answer_for_every_tier",
        "reports more than one line",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import passed
            return passed(request.tier, "engine", found="one\\ntwo")
        """,
    ),
    "check-env finds nothing that it names": Broken(
        "test_check_env_has_an_answer_for_every_tier",
        "does not report what was found",
        """
        @eb.hookimpl
        def check_env(request):
            from enginebay.environment import passed
            return passed(request.tier, "engine", found="")
        """,
    ),
    "it lacks what torch.export takes apart": Broken(
        "test_its_rewriters_can_be_listed",
        "lacking has aten.batch_norm, which no lowering replaces",
        'INFO["lacking"] = frozenset({"aten.batch_norm", "aten.linalg_det"})',
    ),
    "it lacks what it runs": Broken(
        "test_what_it_lacks_can_be_listed",
        "unsupported_operators lists node of a model that runs",
        """
        @eb.hookimpl
        def unsupported_operators(request):
            return {"node": "no"}
        """,
    ),
    "it ignores the device, and repeats its name": Broken(
        "test_a_listed_device_shows_itself",
        "found nothing but the name 'vulkan'",
        """
        INFO["devices"] = ("cpu", "vulkan")

        class Wrapper(Wrapper):
            def __init__(self, request):
                super().__init__(request)
                self.device = request.params.device

            @property
            def receipt(self):
                return eb.Receipt(engine=super().receipt.engine, device=self.device)
        """,
    ),
    "nothing reads a parameter": Broken(
        "test_every_parameter_is_read",
        "found none that reads lanes",
        """
        class PARAMS(loopback.LoopbackParams):
            '''Parameters.

            Args:
                gain: A factor.
                lanes: The number of lanes.
            '''

            lanes: int = 1
        """,
    ),
    "its target is this machine, and it is bound to none": Broken(
        "test_what_depends_on_the_machine_is_bound_to_it",
        "target='native': expected bound_to",
        """
        class PARAMS(loopback.LoopbackParams):
            '''Parameters.

            Args:
                target: The processor.
            '''

            target: str = "native"
        """,
    ),
    "its run-time parameter is built into the file": Broken(
        "test_run_time_parameters_are_read_at_load",
        "same files with other values of gain, found a difference in model.onnx",
        """
        @eb.hookimpl
        def to_backend(request):
            files = loopback.to_backend(request)
            with files[0].open("ab") as file:
                file.write(b"\\x3a\\x00" * (request.params.gain != 1))
            return files
        """,
    ),
    "it forgets its run-time parameter at load": Broken(
        "test_run_time_parameters_are_read_at_load",
        "found none that reads gain",
        """
        class Wrapper(loopback.LoopbackWrapper):
            def __init__(self, request):
                import msgspec
                params = loopback.LoopbackParams(file_name=request.params.file_name)
                super().__init__(msgspec.structs.replace(request, params=params))
        """,
    ),
    "it marks what is no parameter": Broken(
        "test_run_time_parameters_are_read_at_load",
        "expected fields, found num_threads",
        """
        class PARAMS(loopback.LoopbackParams):
            run_time_fields = ("num_threads",)
        """,
    ),
}
