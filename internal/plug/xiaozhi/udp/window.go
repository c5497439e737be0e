package udp

// windowSize is how far packets may be out of order, in packets: almost four seconds.
const windowSize = 64

// maxAhead is how many packets may be missing before an accepted one. It is twice what a board
// sends in the 120 s after which it gives up (wire.ChannelTimeout). Without this limit, one forged
// datagram with a high sequence would end a conversation, since all datagrams of the board would be
// too old.
const maxAhead = 4000

// window records which sequences were received.
type window struct {
	top  uint32 // the newest; the first is 1
	seen uint64 // bit i: top-i was received
}

// check returns the verdict on a sequence.
func (w *window) check(sequence uint32) verdict {
	if sequence > w.top {
		if sequence-w.top > maxAhead {
			return tooFar
		}
		return accepted
	}
	behind := w.top - sequence
	switch {
	case sequence == 0 || behind >= windowSize:
		return tooOld
	case w.seen>>behind&1 != 0:
		return replayed
	}
	return accepted
}

// mark records an accepted sequence, and reports whether it is the newest.
func (w *window) mark(sequence uint32) bool {
	if sequence <= w.top {
		w.seen |= 1 << (w.top - sequence)
		return false
	}
	w.seen = w.seen<<(sequence-w.top) | 1 // clears all bits after a long gap
	w.top = sequence
	return true
}
