package hub

import "time"

// AdvanceEpochs advances the clock that numbers connections.
func AdvanceEpochs(h *Hub, by time.Duration) { h.epochs.observe(time.Now().Add(by).UnixMilli()) }

// Expire removes absent providers whose retention has passed at now.
func Expire(h *Hub, now time.Time) { h.catalogSync.expire(now) }
