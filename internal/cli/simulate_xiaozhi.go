package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
)

type simulateXiaozhiCmd struct {
	URL      string        `name:"url" help:"URL of the server, or of its configuration endpoint for boards; default: the server on the data folder, or http://127.0.0.1:3000." placeholder:"URL"`
	Profile  string        `help:"Firmware profile: fw194, fw242, fw25, or c3 for a chip with little memory; default: fw242." enum:"fw194,fw242,fw25,c3" default:"fw242" placeholder:"NAME"`
	Mode     string        `help:"Listening mode: auto (until the server answers), manual (while a button is held) or realtime (always); default: auto." enum:"auto,manual,realtime" default:"auto" placeholder:"MODE"`
	MAC      string        `name:"mac" help:"MAC address of the board; default: generated." placeholder:"MAC"`
	UUID     string        `name:"uuid" help:"Client id of the board, by which servers recognize it; default: generated." placeholder:"UUID"`
	Picture  string        `help:"JPEG file that the camera returns; default: a lake at sunset." placeholder:"FILE"`
	Say      []string      `help:"Recordings to speak to the board: Opus packets of 60 ms, each with a two-byte length prefix; default: \"good morning\"." placeholder:"FILE.opk"`
	Insecure bool          `help:"Accept any certificate."`
	Once     bool          `help:"Ask one question, report the result and end; default without a terminal."`
	Save     string        `help:"With --once: write the sound of the answer to this file, a WAV file." placeholder:"FILE"`
	Check    bool          `help:"Test the server with the behaviour and faults of real boards, and report protocol violations."`
	Stay     time.Duration `help:"With --once or --check: stay connected for this time afterwards, to receive tool calls." placeholder:"TIME"`
	Count    int           `help:"Number of boards to simulate, instead of one." placeholder:"N"`
	Ramp     string        `help:"With --count: start rate; default: 50/s." placeholder:"N/s" default:"50/s"`
	Talk     int           `help:"With --count: number of boards that are in conversation all the time." placeholder:"N"`
	For      time.Duration `help:"With --count: duration after all boards have started; default: 1m." placeholder:"TIME" default:"1m"`
	Slack    time.Duration `help:"Time added to the limits of the checks, for busy machines." placeholder:"TIME"`
	Verbose  bool          `short:"v" help:"Also show the state of the board and all counters."`

	dataFlags `embed:""`

	perSecond float64
}

// Help returns the command's detailed help with examples.
func (simulateXiaozhiCmd) Help() string {
	return `The board behaves like the firmware. Server behaviour that breaks real boards is reported, and the exit code is 1. Until it is approved, it shows a pairing code.

In a terminal, /wake says the wake word, /press presses the button, /hold and /release are push-to-talk, /say speaks (/say 2 plays the second recording), /abort interrupts, /drop closes the connection, /vanish loses the network without closing it, /boot restarts the board, /quit ends. Other input is sent as text, which web clients can do and boards cannot. The board's tools can be called at any time over MQTT, and during a conversation over WebSocket.

With --count and a server on the same machine, each board has its own IP address on Linux; a remote server limits the number of boards per address.

Examples:

    patchbay simulate xiaozhi
    patchbay simulate xiaozhi --url https://board.example.org --profile fw25 -v
    patchbay simulate xiaozhi --check
    patchbay simulate xiaozhi --once --save answer.wav
    patchbay simulate xiaozhi --once --stay 10m --picture room.jpg
    patchbay simulate xiaozhi --count 200 --ramp 50/s --talk 20 --for 5m`
}

// Run starts one board or many.
func (c *simulateXiaozhiCmd) Run(ctx context.Context, sh *shell) error {
	if err := c.validate(); err != nil {
		return err
	}
	opt, err := c.options(sh)
	if err != nil {
		return err
	}
	speech, err := c.speech()
	if err != nil {
		return err
	}
	if err := knock(ctx, opt.OTA); err != nil {
		return err
	}
	meter := sim.NewMeter()
	defer meter.Close()
	opt.Stalled = meter.Stalled
	if c.Count > 0 {
		return c.many(ctx, sh, opt, speech[0])
	}
	b := newDesktopBoard(sh, c, opt, speech)
	defer b.Close()
	_, live := terminal(sh.stdin)
	switch {
	case c.Check:
		return b.check(ctx)
	case c.Once || !live:
		return noServer(opt.OTA, b.askOnce(ctx))
	}
	return noServer(opt.OTA, b.session(ctx))
}

// maxBoards is the maximum of --count: each board has up to two connections, and a MAC address with
// three free bytes.
const maxBoards = 50000

func (c *simulateXiaozhiCmd) validate() error {
	rate, err := strconv.ParseFloat(strings.TrimSuffix(c.Ramp, "/s"), 64)
	c.perSecond = rate
	switch {
	case err != nil || !(rate > 0 && rate < 1e6):
		return usage(i18n.Message("--ramp is %q; it must have the form 50/s"), c.Ramp)
	case c.Count < 0 || c.Count > maxBoards:
		return usage(i18n.Message("--count is %d; it must be between 1 and %d"),
			c.Count, maxBoards)
	case c.Talk < 0 || c.Talk > max(c.Count, 0):
		return usage(i18n.Message("--talk is %d; it must be between 0 and --count"), c.Talk)
	case c.Stay < 0 || c.For < 0 || c.Slack < 0:
		return usage(i18n.Message("a time cannot be negative"))
	case c.Count > 0 && (c.MAC != "" || c.UUID != "" || c.Check || c.Once):
		return usage(i18n.Message("--count cannot be used with --mac, --uuid, --check or --once"))
	case c.Save != "" && !c.Once:
		return usage(i18n.Message("--save requires --once"))
	case c.Check && c.Once:
		return usage(i18n.Message("--check cannot be used with --once"))
	}
	if c.MAC != "" {
		mac, err := net.ParseMAC(c.MAC)
		if err != nil || len(mac) != 6 {
			return usage(i18n.Message("--mac is %q; it must have the form 02:00:00:12:34:56"), c.MAC)
		}
		c.MAC = mac.String()
	}
	if c.UUID != "" {
		id, err := uuid.Parse(c.UUID)
		if err != nil {
			return usage(i18n.Message("--uuid is %q, which is not a UUID"), c.UUID)
		}
		c.UUID = id.String()
	}
	return nil
}

// options returns the options of every board.
func (c *simulateXiaozhiCmd) options(sh *shell) (opt sim.Options, err error) {
	if opt.OTA, err = c.address(sh); err != nil {
		return opt, err
	}
	if opt.Profile, err = sim.ProfileNamed(c.Profile); err != nil {
		return opt, err
	}
	opt.MAC, opt.UUID, opt.Mode, opt.Slack, opt.Picture = c.MAC, c.UUID, c.Mode, c.Slack, sampleJPEG()
	opt.Lang, opt.KeepAudio = deviceLang(sh.lang), c.Save != ""
	if c.Picture != "" {
		if opt.Picture, err = readPicture(c.Picture); err == nil &&
			!bytes.HasPrefix(opt.Picture, []byte{0xff, 0xd8, 0xff}) {
			err = i18n.Message("%s is not a JPEG file; cameras of boards take only JPEG photos").Errorf(c.Picture)
		}
	}
	if c.Insecure {
		opt.TLS = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // requested by the user
	}
	return opt, err
}

// address returns the URL that the board connects to.
func (c *simulateXiaozhiCmd) address(sh *shell) (string, error) {
	return c.serverAddress(sh, c.URL, xiaozhi.OTAPath)
}

// speech returns the recordings that can be sent to the board.
func (c *simulateXiaozhiCmd) speech() (all [][][]byte, err error) {
	for _, name := range c.Say {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		packets, err := sim.ParseSpeech(data)
		if err == nil && len(packets) == 0 {
			err = i18n.Message("there is nothing to say").Errorf()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, packets)
	}
	if all == nil {
		all = [][][]byte{sim.GoodMorning(), sim.No()}
	}
	return all, nil
}
