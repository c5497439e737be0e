package main

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
	URL      string        `name:"url" help:"The server, or where boards call home there; without it, the server that runs on the data folder, or http://127.0.0.1:3000." placeholder:"URL"`
	Profile  string        `help:"The firmware: fw194, fw242, fw25, or c3 for a chip with little memory; fw242 unless given." enum:"fw194,fw242,fw25,c3" default:"fw242" placeholder:"NAME"`
	Mode     string        `help:"How the board listens: auto (until the server answers), manual (while a button is held) or realtime (always); auto unless given." enum:"auto,manual,realtime" default:"auto" placeholder:"MODE"`
	MAC      string        `name:"mac" help:"The board's hardware address; without it, an invented one." placeholder:"MAC"`
	UUID     string        `name:"uuid" help:"The board's client id, by which a server knows it again; without it, an invented one." placeholder:"UUID"`
	Picture  string        `help:"What the camera sees, a JPEG file; without it, a lake at sunset." placeholder:"FILE"`
	Say      []string      `help:"What somebody says to it: recordings of Opus packets of 60 ms, each after two bytes with its length. Without them, good morning." placeholder:"FILE.opk"`
	Insecure bool          `help:"Accept any certificate."`
	Once     bool          `help:"Ask once, tell what came of it, and end; this is what happens without a terminal."`
	Check    bool          `help:"Go through what real boards do and what they suffer, and tell which rules the server breaks."`
	Stay     time.Duration `help:"With --once or --check: then stay, to be called, for as long as that." placeholder:"TIME"`
	Count    int           `help:"So many boards instead of one." placeholder:"N"`
	Ramp     string        `help:"With --count: how many are turned on per second; 50/s unless given." placeholder:"N/s" default:"50/s"`
	Talk     int           `help:"With --count: how many of them are talked to all the time." placeholder:"N"`
	For      time.Duration `help:"With --count: for how long, when all are on; 1m unless given." placeholder:"TIME" default:"1m"`
	Slack    time.Duration `help:"Added to the time limits of the rules, for machines that have a lot to do." placeholder:"TIME"`
	Verbose  bool          `short:"v" help:"Also show what state the board is in, and all counters."`

	dataFlags `embed:""`

	perSecond float64
}

// Help returns the command's detailed help with examples.
func (simulateXiaozhiCmd) Help() string {
	return `The board behaves as the firmware does, and what would confuse real boards is reported; the exit code is 1 then. As long as nobody has approved it, it shows a code.

In a terminal, /wake says the wake word, /press presses the button, /hold and /release are the button of a walkie-talkie, /say speaks (/say 2 says the second recording), /abort interrupts, /drop turns the network off, /vanish does so without the server noticing, /boot turns the board off and on, /quit ends. Anything else is sent as typed text, which web pages can do and boards cannot. Meanwhile tools of the board can be called, over MQTT always and on WebSocket while there is a conversation.

With --count and a server on the same machine each board has an address of its own, on Linux; a server elsewhere bounds how many may come from one.

Examples:

    patchbay simulate xiaozhi
    patchbay simulate xiaozhi --url https://board.example.org --profile fw25 -v
    patchbay simulate xiaozhi --check
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
		return b.askOnce(ctx)
	}
	return b.session(ctx)
}

// maxBoards is the maximum of --count: each board has up to two connections, and a MAC address with
// three free bytes.
const maxBoards = 50000

func (c *simulateXiaozhiCmd) validate() error {
	rate, err := strconv.ParseFloat(strings.TrimSuffix(c.Ramp, "/s"), 64)
	c.perSecond = rate
	switch {
	case err != nil || !(rate > 0 && rate < 1e6):
		return usage(i18n.Message("--ramp is %q; it has to look like 50/s"), c.Ramp)
	case c.Count < 0 || c.Count > maxBoards:
		return usage(i18n.Message("--count is %d; it has to be between 1 and %d"),
			c.Count, maxBoards)
	case c.Talk < 0 || c.Talk > max(c.Count, 0):
		return usage(i18n.Message("--talk is %d; it has to be between 0 and what --count is"), c.Talk)
	case c.Stay < 0 || c.For < 0 || c.Slack < 0:
		return usage(i18n.Message("a time cannot be negative"))
	case c.Count > 0 && (c.MAC != "" || c.UUID != "" || c.Check || c.Once):
		return usage(i18n.Message("--count does not go together with --mac, --uuid, --check or --once"))
	case c.Check && c.Once:
		return usage(i18n.Message("--check does not go together with --once"))
	}
	if c.MAC != "" {
		mac, err := net.ParseMAC(c.MAC)
		if err != nil || len(mac) != 6 {
			return usage(i18n.Message("--mac is %q; it has to look like 02:00:00:12:34:56"), c.MAC)
		}
		c.MAC = mac.String()
	}
	if c.UUID != "" {
		id, err := uuid.Parse(c.UUID)
		if err != nil {
			return usage(i18n.Message("--uuid is %q, which is no UUID"), c.UUID)
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
	opt.Lang = deviceLang(sh.lang)
	if c.Picture != "" {
		if opt.Picture, err = readPicture(c.Picture); err == nil &&
			!bytes.HasPrefix(opt.Picture, []byte{0xff, 0xd8, 0xff}) {
			err = i18n.Message("%s is no JPEG file, and cameras of boards take nothing else").Errorf(c.Picture)
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
			err = i18n.Message("nothing is said").Errorf()
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
