package hub

import "time"

// AdvanceEpochs has the clock that numbers connections be ahead.
func AdvanceEpochs(h *Hub, by time.Duration) { h.epochs.observe(time.Now().Add(by).UnixMilli()) }

// Expire says that what nobody holds has been listed for long enough.
func Expire(h *Hub, now time.Time) { h.catalogSync.expire(now) }
