"""What the packages for OpenMMLab's libraries share: a library, its configs and its models."""

from __future__ import annotations

from enginebay_openmmlab.image_sizes import wrap_size_errors as wrap_size_errors
from enginebay_openmmlab.library import Library as Library
from enginebay_openmmlab.normalisation import read_normalisation as read_normalisation
from enginebay_openmmlab.post_processing import check_post_processing as check_post_processing
from enginebay_openmmlab.random_heads import spread_outputs as spread_outputs

__version__ = "0.1.0"
