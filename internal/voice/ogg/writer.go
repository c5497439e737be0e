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

// maxPagePackets is the number of packets after which a page is written: one second of packets of
// 20 ms. The segment table has room for the lengths of the largest of them.
const maxPagePackets = 50

// WriterOptions describes the stream to write.
type WriterOptions struct {
	Channels  int // 1 or 2
	InputRate int // Hz, before encoding; informational
	PreSkip   int // samples at [Rate] that players drop at the start
	// Serial identifies the stream in its file; 0 means a random one.
	Serial uint32
	Vendor string // the program that writes the file
	Tags   []Tag
	// PageInterval is the maximum duration of a page; 0 means one second. If the program is killed,
	// the packets after the last page are lost, and the file can be played up to there.
	PageInterval time.Duration
}

// Writer writes one stream of packets. Silence can be inserted where nothing was received, so that
// the file lasts as long as the recorded event. It is not safe for concurrent use.
type Writer struct {
	w               io.Writer
	pageSamples     int64
	page            page
	position        int64 // after all packets
	flushedPosition int64 // after the last page that was written
	toc             opus.TOC
	count           int // packets on the page
	buf             []byte
	err             error
}

// NewWriter writes OpusHead and OpusTags to w. Each page is written by one call of Write.
func NewWriter(w io.Writer, r WriterOptions) (*Writer, error) {
	if r.Channels < 1 || r.Channels > 2 || r.PreSkip < 0 || r.PreSkip > 0xffff || r.InputRate < 0 {
		return nil, fmt.Errorf("ogg writer: %d channels, pre-skip %d, %d Hz", r.Channels, r.PreSkip, r.InputRate)
	}
	if r.PageInterval <= 0 {
		r.PageInterval = time.Second
	}
	if r.Serial == 0 {
		r.Serial = 1 + rand.Uint32N(1<<31) // some tools reject 0
	}
	o := &Writer{w: w, pageSamples: samples(r.PageInterval), page: page{serial: r.Serial}}
	head := append([]byte("OpusHead\x01"), byte(r.Channels))
	head = binary.LittleEndian.AppendUint16(head, uint16(r.PreSkip))
	head = binary.LittleEndian.AppendUint32(head, uint32(r.InputRate))
	o.add(append(head, 0, 0, 0)) // output gain 0, mapping family 0 (RFC 7845 §5.1)
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

// samples converts d to samples at [Rate].
func samples(d time.Duration) int64 { return int64(d) * Rate / int64(time.Second) }

// Write adds a packet after the one before. Bytes that are no Opus packet are rejected, and the
// file stays valid.
func (w *Writer) Write(packet []byte) error {
	d := opus.Duration(packet)
	if d == 0 || len(packet) > opus.MaxPacket {
		return fmt.Errorf("ogg writer: %w", opus.ErrMalformed)
	}
	if w.err != nil {
		return w.err
	}
	// A page holds 255 segments of 255 bytes (RFC 3533 §6). Packets are not split across pages, so
	// that every page can be played without the next.
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

// Skip adds silence of duration d, for packets that were lost or never sent. It consists of packets
// as long as those before, or of 20 ms at the beginning; a remainder is left out.
func (w *Writer) Skip(d time.Duration) error {
	toc := w.toc &^ 3
	if w.toc == 0 && w.position == 0 {
		toc = 9 << 3 // SILK, wideband, 20 ms (RFC 6716 §3.1, table 2)
	}
	step := toc.FrameDuration()
	for ; d >= step && w.err == nil; d -= step {
		// A packet of only its TOC byte holds an empty frame, which means DTX or loss (RFC 6716
		// §3.2.1).
		if err := w.Write([]byte{byte(toc)}); err != nil {
			return err
		}
	}
	return w.err
}

// Length is the duration of the audio so far, pre-skip included.
func (w *Writer) Length() time.Duration { return time.Duration(w.position) * time.Second / Rate }

// Flush writes the incomplete page. What is flushed can be played whatever happens next.
func (w *Writer) Flush() error {
	if w.count == 0 {
		return w.err
	}
	return w.flush(w.position)
}

// Close writes the rest and marks the end of the stream. It does not close the underlying writer. A
// stream that is not closed can be played as well.
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

// add appends a packet to the page.
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
