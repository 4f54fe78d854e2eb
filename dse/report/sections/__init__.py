"""The sections of a report: functions of the run's facts that return what is shown."""
