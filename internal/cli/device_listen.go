package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"patchbay/internal/i18n"
)

type deviceListenCmd struct {
	Out         string `help:"File to which the audio is written; default: standard output." placeholder:"FILE"`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceListenCmd) Help() string {
	return `Writes the audio of the device's microphone as an Ogg Opus stream until Ctrl-C. A board sends audio only during a conversation. It requires permission to call the device's tool record.

Examples:

    patchbay device listen kitchen --out kitchen.ogg
    patchbay device listen kitchen | ffplay -nodisp -
    patchbay device listen kitchen --out kitchen.ogg --json`
}

const msgListens = i18n.Message("Listening to %s; press Ctrl-C to stop. Sound is received only while somebody talks to it.")

// Run listens until ctx ends, which is not an error, or the device ends it.
func (c *deviceListenCmd) Run(ctx context.Context, sh *shell) error {
	if c.Out == "" {
		if sh.json {
			return usage(i18n.Message("--json requires --out FILE, because the sound is written to standard output otherwise"))
		}
		if _, ok := terminal(sh.stdout); ok {
			return usage(i18n.Message("sound cannot be written to a terminal; use --out FILE, or a pipe: patchbay device listen %s | ffplay -nodisp -"), quoteWord(c.Device))
		}
	}
	return c.reach(ctx, sh, func(at *conn) error { return c.listen(ctx, sh, at) })
}

// listen writes the sound to the file or to standard output.
func (c *deviceListenCmd) listen(ctx context.Context, sh *shell, at *conn) (err error) {
	d, err := c.find(ctx, at)
	if err != nil {
		return listenEnd(ctx, err)
	}
	sound, err := at.Listen(ctx, strconv.FormatInt(d.Number, 10))
	if err != nil {
		return listenEnd(ctx, err)
	}
	defer sound.Close()
	fmt.Fprintln(sh.stderr, msgListens.In(sh.lang, plain(c.Device)))
	if c.Out == "" {
		_, err = copySound(sh.stdout, sound)
		return listenEnd(ctx, err)
	}
	// The file is created or overwritten only once audio arrives.
	f := &lazyFile{name: c.Out}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := copySound(f, sound)
	if err = listenEnd(ctx, err); err != nil {
		return err
	}
	if n == 0 {
		return i18n.Message("no sound was received, so %s was not written").Errorf(c.Out)
	}
	got := recording{c.Out, "audio/ogg", n}
	return sh.result(got, func() { sh.say(msgRecorded, got.File, got.MIME, got.Bytes) })
}

// copySound copies sound to w until it ends.
func copySound(w io.Writer, sound io.Reader) (int64, error) {
	to := &sink{Writer: w}
	n, err := io.Copy(to, sound)
	if err != nil && to.err == nil {
		err = i18n.Message("the connection broke; the sound ends here").Errorf()
	}
	return n, err
}

// sink records whether writing failed.
type sink struct {
	io.Writer
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	s.err = err
	return n, err
}

// listenEnd returns nil if err only means that the user stopped listening.
func listenEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lazyFile is a file that is created by the first write.
type lazyFile struct {
	name string
	f    *os.File
}

func (l *lazyFile) Write(b []byte) (n int, err error) {
	if l.f == nil {
		// Recordings from a home are readable by their owner only.
		if l.f, err = os.OpenFile(l.name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err != nil {
			return 0, err
		}
	}
	return l.f.Write(b)
}

func (l *lazyFile) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}
