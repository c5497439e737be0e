package board

import "time"

// Hasten has the clock that numbers connections be ahead.
func Hasten(b *Board, by time.Duration) { b.epochs.heard(time.Now().Add(by).UnixMilli()) }

// Absent is for how long what nobody holds stays listed; Expire says that it has passed.
const Absent = absentFor

func Expire(b *Board, now time.Time) { b.far.expire(now) }
