"""Verified exports of transformers' models, and decoders that generate without torch.

Importing this module imports nothing else: each name below is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import lazy_names

if TYPE_CHECKING:
    from enginebay_transformers.bundle import (
        Bundle as Bundle,
        Generation as Generation,
        PromptVerdict as PromptVerdict,
        open_bundle as open_bundle,
    )
    from enginebay_transformers.decoder import (
        BundleDeployment as BundleDeployment,
        deploy_decoder as deploy_decoder,
    )
    from enginebay_transformers.exported_folder import (
        ExportedFolder as ExportedFolder,
        read_folder as read_folder,
    )
    from enginebay_transformers.exporter import (
        EnginebayConfig as EnginebayConfig,
        EnginebayExporter as EnginebayExporter,
        EnginebayRunner as EnginebayRunner,
    )
    from enginebay_transformers.judged_folder import (
        JudgedFolder as JudgedFolder,
        judge_folder as judge_folder,
    )

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "bundle": "Bundle Generation PromptVerdict open_bundle",
        "decoder": "BundleDeployment deploy_decoder",
        "exported_folder": "ExportedFolder read_folder",
        "judged_folder": "JudgedFolder judge_folder",
        "exporter": "EnginebayConfig EnginebayExporter EnginebayRunner",
    },
)
