package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/relay"
)

type relayKeyAddCmd struct {
	Name        string   `arg:"" help:"Name of the home; with the relay's domain behind it, it is its address."`
	Also        []string `help:"Another host name that leads to this home, if it is an alias (CNAME) of the relay in the DNS. Repeatable." placeholder:"HOST"`
	Quota       string   `help:"Bytes that may pass in a calendar month, such as 100GiB; default: any number." placeholder:"SIZE"`
	relayFolder `embed:""`
}

// Help returns the command's detailed help with examples.
func (relayKeyAddCmd) Help() string {
	return `Prints a join code, which lets one home in, once: from then on the home is known by its own key, and the name stays with it. The code also tells the home the key of this relay. It is shown only once; only its hash is stored. A running relay knows it at once.

At home: patchbay serve --relay relay.example.org --relay-key CODE

Examples:

    patchbay relay key add anna
    patchbay relay key add ben --also board.example.net --quota 100GiB --json`
}

const (
	msgRelayCode     = i18n.Message("The join code of %s:")
	msgRelayRevoked  = i18n.Message("%s is removed; its connections end within a second.")
	msgRelayHome     = i18n.Message("HOME")
	msgRelayAlso     = i18n.Message("OTHER NAMES")
	msgRelayQuota    = i18n.Message("BYTES PER MONTH")
	msgRelayJoined   = i18n.Message("JOINED")
	msgRelayJoinedY  = i18n.Message("yes")
	msgRelayJoinedN  = i18n.Message("not yet")
	msgRelayBadQuota = i18n.Message("--quota must be a size such as 100GiB")
)

// Run adds a home.
func (c *relayKeyAddCmd) Run(_ context.Context, sh *shell) error {
	folder, err := c.folder(sh)
	if err != nil {
		return err
	}
	h := relay.Home{Name: c.Name}
	for _, host := range c.Also {
		h.Also = append(h.Also, strings.ToLower(host))
	}
	slices.Sort(h.Also)
	if c.Quota != "" {
		size, err := config.ParseSize(c.Quota)
		if err != nil || size <= 0 {
			return usage(msgRelayBadQuota)
		}
		h.Quota = int64(size)
	}
	code, err := folder.Add(h)
	if err != nil {
		return err
	}
	return sh.result(map[string]any{"name": c.Name, "code": code.String()}, func() {
		sh.say(msgRelayCode, c.Name)
		sh.printf("%s\n", code)
		sh.say(msgKeyOnce)
	})
}

type relayKeyListCmd struct {
	relayFolder `embed:""`
}

// Help returns the command's detailed help with examples.
func (relayKeyListCmd) Help() string {
	return `Example:

    patchbay relay key list`
}

// relayHome is a home as JSON.
type relayHome struct {
	Name    string    `json:"name"`
	Also    []string  `json:"also"`
	Quota   int64     `json:"quota"` // bytes per month; 0: any number
	Created time.Time `json:"created_at"`
	Joined  bool      `json:"joined"`
}

// Run lists the homes.
func (c *relayKeyListCmd) Run(_ context.Context, sh *shell) error {
	folder, err := c.folder(sh)
	if err != nil {
		return err
	}
	homes, err := folder.Homes()
	if err != nil {
		return err
	}
	list, rows := make([]relayHome, 0, len(homes)), [][]string(nil)
	for _, h := range homes {
		list = append(list, relayHome{h.Name, append([]string{}, h.Also...), h.Quota, h.Created, h.Joined != ""})
		quota, joined := "-", msgRelayJoinedN
		if h.Quota > 0 {
			quota = config.Size(h.Quota).String()
		}
		if h.Joined != "" {
			joined = msgRelayJoinedY
		}
		rows = append(rows, []string{h.Name, strings.Join(h.Also, ", "), quota, sh.when(h.Created), joined.In(sh.lang)})
	}
	return sh.result(list, func() {
		sh.table([]i18n.Message{msgRelayHome, msgRelayAlso, msgRelayQuota, msgCreated, msgRelayJoined}, rows)
	})
}

type relayKeyRevokeCmd struct {
	Name        string `arg:"" help:"Name of the home."`
	relayFolder `embed:""`
}

// Help returns the command's detailed help with examples.
func (relayKeyRevokeCmd) Help() string {
	return `The home is cut off within a second, and its name is free.

Example:

    patchbay relay key revoke anna`
}

// Run removes a home.
func (c *relayKeyRevokeCmd) Run(_ context.Context, sh *shell) error {
	folder, err := c.folder(sh)
	if err != nil {
		return err
	}
	if err := folder.Revoke(c.Name); err != nil {
		return err
	}
	return sh.result(map[string]any{"name": c.Name, "revoked": true}, func() { sh.say(msgRelayRevoked, c.Name) })
}
