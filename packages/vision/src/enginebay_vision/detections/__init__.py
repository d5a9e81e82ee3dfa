"""The comparator ``detections``, which compares sets of boxes that have scores and labels."""
