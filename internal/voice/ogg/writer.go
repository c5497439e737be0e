package ogg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"patchbay/internal/voice/opus"
)

// maxPagePackets is when a page is written without being asked to: a second of packets of
// 20 ms. The lengths of the greatest packets still fit.
const maxPagePackets = 50

// WriterOptions says what is written.
type WriterOptions struct {
	Channels  int // 1 or 2
	InputRate int // of the sound before it was encoded, for whoever is curious
	PreSkip   int // samples at [Rate] that players leave out at the start
	// Serial tells streams in one file apart; 0 means any.
	Serial uint32
	Vendor string // who made the file
	Tags   []Tag
	// PageInterval is after how much sound a page is written at the latest; 0 means one
	// second. A program that is killed loses what came after the last page, and the
	// file can be played up to there.
	PageInterval time.Duration
}

// Writer writes one stream of packets. Where nothing was received, silence is
// written, so that the file lasts as long as what it is a recording of. It is for
// one goroutine.
type Writer struct {
	w               io.Writer
	pageSamples     int64
	page            page
	position        int64 // position after all packets
	flushedPosition int64 // position after the page that was written last
	toc             opus.TOC
	count           int // packets on the page
	buf             []byte
	err             error
}

// NewWriter writes the head and the tags to w, each page with one call of Write.
func NewWriter(w io.Writer, r WriterOptions) (*Writer, error) {
	if r.Channels < 1 || r.Channels > 2 || r.PreSkip < 0 || r.PreSkip > 0xffff || r.InputRate < 0 {
		return nil, fmt.Errorf("ogg writer: %d channels, pre-skip %d, %d Hz", r.Channels, r.PreSkip, r.InputRate)
	}
	if r.PageInterval <= 0 {
		r.PageInterval = time.Second
	}
	if r.Serial == 0 {
		r.Serial = 1 + rand.Uint32N(1<<31) // some tools do not like 0
	}
	o := &Writer{w: w, pageSamples: samples(r.PageInterval), page: page{serial: r.Serial}}
	head := append([]byte("OpusHead\x01"), byte(r.Channels))
	head = binary.LittleEndian.AppendUint16(head, uint16(r.PreSkip))
	head = binary.LittleEndian.AppendUint32(head, uint32(r.InputRate))
	o.add(append(head, 0, 0, 0)) // no gain, one stream
	o.page.flags = flagFirst
	if err := o.flush(0); err != nil {
		return nil, err
	}
	tags := appendSized([]byte("OpusTags"), r.Vendor)
	tags = binary.LittleEndian.AppendUint32(tags, uint32(len(r.Tags)))
	for _, t := range r.Tags {
		tags = appendSized(tags, t.Name+"="+t.Value)
	}
	if len(tags) > maxSegments*254 {
		return nil, fmt.Errorf("ogg writer: %d bytes of tags", len(tags))
	}
	o.add(tags)
	return o, o.flush(0)
}

func appendSized(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

// samples is how many samples at [Rate] d is.
func samples(d time.Duration) int64 { return int64(d) * Rate / int64(time.Second) }

// Write adds a packet, right after the one before. What is not an Opus packet is
// refused, and the file stays good.
func (w *Writer) Write(packet []byte) error {
	d := opus.Duration(packet)
	if d == 0 || len(packet) > opus.MaxPacket {
		return fmt.Errorf("ogg writer: %w", opus.ErrMalformed)
	}
	if w.err != nil {
		return w.err
	}
	// A page holds 255 pieces of 255 bytes. Packets are not cut, so that every page
	// can be played without the next.
	if len(w.page.lacing)+len(packet)/255+1 > maxSegments {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.add(packet)
	w.position += samples(d)
	w.toc = opus.TOC(packet[0])
	if w.count >= maxPagePackets || w.position-w.flushedPosition >= w.pageSamples {
		return w.Flush()
	}
	return nil
}

// Skip adds d of silence, for packets that were lost or never sent, in steps of the
// packets before it; what does not fill a step is left out. Before the first packet
// the steps are of 20 ms.
func (w *Writer) Skip(d time.Duration) error {
	toc := w.toc &^ 3
	if w.toc == 0 && w.position == 0 {
		toc = 9 << 3 // SILK, wideband, 20 ms
	}
	step := toc.FrameDuration()
	for ; d >= step && w.err == nil; d -= step {
		// One byte is a frame that was not sent.
		if err := w.Write([]byte{byte(toc)}); err != nil {
			return err
		}
	}
	return w.err
}

// Length is how long the sound is so far, pre-skip included.
func (w *Writer) Length() time.Duration { return time.Duration(w.position) * time.Second / Rate }

// Flush writes what is waiting. What was flushed can be played whatever happens next.
func (w *Writer) Flush() error {
	if w.count == 0 {
		return w.err
	}
	return w.flush(w.position)
}

// Close writes the rest and says that the stream ends. It does not close the writer
// below. A stream that is not closed can be played as well.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.page.flags |= flagLast
	granule := w.position
	if w.count == 0 {
		granule = noGranule
	}
	err := w.flush(granule)
	if err == nil {
		w.err = errors.New("ogg writer is closed")
	}
	return err
}

// add puts a packet on the page.
func (w *Writer) add(packet []byte) {
	n := len(packet)
	for ; n >= 255; n -= 255 {
		w.page.lacing = append(w.page.lacing, 255)
	}
	w.page.lacing = append(w.page.lacing, byte(n))
	w.page.body = append(w.page.body, packet...)
	w.count++
}

func (w *Writer) flush(granule int64) error {
	w.page.granule = granule
	w.buf = w.page.append(w.buf[:0])
	if _, err := w.w.Write(w.buf); err != nil {
		w.err = fmt.Errorf("write ogg: %w", err)
		return w.err
	}
	w.page.sequence++
	w.page.flags, w.page.lacing, w.page.body = 0, w.page.lacing[:0], w.page.body[:0]
	w.count, w.flushedPosition = 0, w.position
	return nil
}
