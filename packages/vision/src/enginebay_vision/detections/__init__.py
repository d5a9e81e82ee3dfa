"""The comparator ``detections``, which compares boxes with scores and labels as sets."""
