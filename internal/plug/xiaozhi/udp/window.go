package udp

// windowSize is how far a packet may be overtaken, in packets: almost four seconds.
const windowSize = 64

// maxAhead is how many packets may be missing in front of one that is believed. It is
// twice what a board sends in the two minutes after which it gives up. A datagram that
// somebody made up, with any sequence, would otherwise end a conversation: all that
// the board sends would be too old.
const maxAhead = 4000

// window knows which sequences were there.
type window struct {
	top  uint32 // the newest; the first is 1
	seen uint64 // bit i: top-i was there
}

// look says whether a sequence is good.
func (w *window) look(sequence uint32) verdict {
	if sequence > w.top {
		if sequence-w.top > maxAhead {
			return tooFar
		}
		return good
	}
	behind := w.top - sequence
	switch {
	case sequence == 0 || behind >= windowSize:
		return tooOld
	case w.seen>>behind&1 != 0:
		return replayed
	}
	return good
}

// mark remembers a sequence that is good, and says whether it is the newest.
func (w *window) mark(sequence uint32) bool {
	if sequence <= w.top {
		w.seen |= 1 << (w.top - sequence)
		return false
	}
	w.seen = w.seen<<(sequence-w.top) | 1 // all bits go if it is far
	w.top = sequence
	return true
}
