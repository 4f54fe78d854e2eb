"""How each figure is drawn: functions of plain values that fill an empty matplotlib figure."""
