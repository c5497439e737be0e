package voice

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/hajimehoshi/go-mp3"

	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/pcm"
)

// ErrMalformedMP3 is found by errors.Is in every error about bytes that are not MP3.
var ErrMalformedMP3 = errors.New("malformed MP3")

// MP3 returns a source that plays MP3 (MPEG-1 and MPEG-2, layer III) while it is received. For r
// see [OggOpus].
func MP3(r io.Reader, o Output) pace.Source {
	return encode(r, o, func() (samples, error) { return MP3Samples(r, o.Encoding.SampleRate) })
}

// MP3Samples returns the samples of MP3 at a rate, in Hz, while it is received.
func MP3Samples(r io.Reader, rate int) (*pcm.SampleReader, error) {
	b, err := decodeMP3(r)
	if err != nil {
		return nil, err
	}
	// The decoder makes two channels of one.
	return pcm.NewRaw(b, pcm.Format{Rate: b.decoder.SampleRate(), Channels: 2, Bits: 16}, rate)
}

// decodeMP3 reads the beginning of r.
func decodeMP3(r io.Reader) (*mp3Bytes, error) {
	in := bufio.NewReader(r)
	if err := skipID3(in); err != nil {
		return nil, err
	}
	b := &mp3Bytes{source: &errorKeeper{r: in}}
	err := b.guard(func() (err error) {
		b.decoder, err = mp3.NewDecoder(b.source)
		return err
	})
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: no sound", ErrMalformedMP3)
	}
	return b, err
}

// skipID3 skips a tag before the sound (ID3 tag version 2.4.0, structure, 3.1): the decoder would
// keep it in memory, with its pictures.
func skipID3(in *bufio.Reader) error {
	head, err := in.Peek(10)
	if len(head) < 10 || string(head[:3]) != "ID3" {
		if errors.Is(err, io.EOF) {
			return nil // the decoder explains it
		}
		return err
	}
	size := 10
	for i, b := range head[6:10] { // 7 bits each
		size += int(b&0x7f) << (7 * (3 - i))
	}
	_, err = in.Discard(size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: no sound after its tag", ErrMalformedMP3)
	}
	return err
}

// mp3Bytes are the decoded samples.
type mp3Bytes struct {
	decoder *mp3.Decoder
	source  *errorKeeper
}

// Read implements [io.Reader].
func (b *mp3Bytes) Read(p []byte) (n int, err error) {
	err = b.guard(func() (err error) {
		n, err = b.decoder.Read(p)
		return err
	})
	return n, err
}

// guard returns the error of the source, which the decoder hides, and turns panics of the decoder
// into errors: it does not check everything that it reads.
func (b *mp3Bytes) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrMalformedMP3, r)
		}
	}()
	err = f()
	switch {
	case err == nil:
		return nil
	case b.source.err != nil:
		return b.source.err
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("%w: %w", ErrMalformedMP3, err)
}

// errorKeeper keeps an error of a reader that is not its end.
type errorKeeper struct {
	r   io.Reader
	err error
}

// Read implements [io.Reader].
func (k *errorKeeper) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		k.err = err
	}
	return n, err
}
