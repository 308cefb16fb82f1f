-- Why the end of a run was asked for stands in its row as soon as anybody asked.
comment on column signalbox.run.cancel_cause is 'why its end was asked for; null while nobody asked';
