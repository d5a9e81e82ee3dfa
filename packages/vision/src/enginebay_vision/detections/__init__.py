"""The comparator ``detections``: boxes with scores and labels, as a set."""
