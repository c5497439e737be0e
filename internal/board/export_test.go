package board

import "time"

// Hasten has the clock that numbers connections be ahead.
func Hasten(b *Board, by time.Duration) { b.epochs.heard(time.Now().Add(by).UnixMilli()) }

// Expire says that what nobody holds has been listed for long enough.
func Expire(b *Board, now time.Time) { b.far.expire(now) }
