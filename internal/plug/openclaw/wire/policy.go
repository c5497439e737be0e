package wire

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// The platforms that a gateway tells apart.
const (
	IOS      = "ios"
	WatchOS  = "watchos"
	Android  = "android"
	MacOS    = "macos"
	Windows  = "windows"
	Linux    = "linux"
	Unlisted = "unknown" // all others
)

// Surface is what a node says it is and can do, and what of that its owner approved.
type Surface struct {
	Platform string
	Family   string
	Caps     []string
	Declared []string // the commands that it wants to be called for
	Approved []string // those that its owner has approved
}

// Policy is what the owner of a gateway has decided about commands, beyond what
// platforms may do anyway. Names are exact: there are no patterns.
type Policy struct {
	Allow []string
	Deny  []string // has the last word
}

// desktopHost are commands that reach deep into a computer. A desktop may declare
// them, and they are allowed as soon as somebody has approved that.
var desktopHost = set(
	"system.run.prepare", "system.run", "system.which", "system.execApprovals.get", "system.execApprovals.set", "fs.listDir",
	"terminal.upload", "browser.proxy", "browser.proxy.upload.v1", CommandTool, "agent.cli.claude.run.v1", "screen.snapshot", "desktop.stream",
)

// dangerous are commands that a node may declare, and that are carried out only if
// they are in Allow.
var dangerous = set(
	"camera.snap", "camera.clip", "camera.ptz.control", "screen.record", "contacts.add", "calendar.add", "reminders.add",
	"sms.send", "sms.search", "health.summary",
)

// private are what gateways and their workers say to each other.
var private = set(
	"worker.bundle.install.v1", "worker.launch.v1", "worker.status.v1", "worker.cancel.v1", "worker.environment.stop.v1",
	"worker.workspace.exec.v1", "worker.workspace.prepare.v1", "worker.workspace.retain.v1", "worker.desktop.stream.v1",
	"worker.desktop.launch.v1", "worker.desktop.computer.v1", "worker.portal.stream.v1",
)

// adminInvoke are commands for which an operator has to be admin, and adminApproval
// those for which the one who approves them has to be.
var (
	adminInvoke   = set("browser.proxy", "browser.proxy.upload.v1", "fs.listDir", "terminal.upload")
	adminApproval = set(
		"browser.proxy", "browser.proxy.upload.v1", "fs.listDir", "terminal.upload", "system.run.prepare", "system.run", "system.which",
		"system.execApprovals.get", "system.execApprovals.set",
	)
)

// talkCommands are for nodes that can talk.
var talkCommands = []string{"talk.ptt.start", "talk.ptt.stop", "talk.ptt.cancel", "talk.ptt.once"}

// platformCommands are what nodes of a platform may do without anybody having said
// so. Desktops have desktopHost besides.
var platformCommands = map[string][]string{
	IOS: {
		"camera.list", "location.get", "device.info", "device.status", "contacts.search", "calendar.events", "reminders.list",
		"photos.latest", "motion.activity", "motion.pedometer", "system.notify",
	},
	WatchOS: {"device.info", "device.status", "system.notify"},
	Android: {
		"camera.list", "location.get", "notifications.list", "notifications.actions", "system.notify", "device.info", "device.status",
		"device.permissions", "device.health", "device.apps", "contacts.search", "calendar.events", "callLog.search", "reminders.list",
		"photos.latest", "motion.activity", "motion.pedometer", "mobile.ui.observe", "mobile.ui.act",
	},
	MacOS: {
		"camera.list", "camera.ptz.status", "location.get", "device.info", "device.status", "device.apps", "contacts.search",
		"calendar.events", "reminders.list", "photos.latest", "motion.activity", "motion.pedometer", "system.notify", "computer.act",
		"ollama.models", "ollama.chat",
	},
	// ollama.*: the plugin of that name, which OpenClaw brings along, allows them to
	// desktops (extensions/ollama/src/node-inference-contract.ts of 2026.9.6).
	Windows:  {"camera.list", "location.get", "device.info", "device.status", "system.notify", "computer.act", "ollama.models", "ollama.chat"},
	Linux:    {"system.notify", "computer.act", "ollama.models", "ollama.chat"},
	Unlisted: {"camera.list", "location.get", "system.notify"},
}

// familyOf are the families that a platform's name is believed with.
var familyOf = map[string][]string{
	IOS: {"", "iphone", "ipad", "ios"}, WatchOS: {"apple watch", "watchos"}, Android: {"", "android"},
	MacOS: {"mac"}, Windows: {"windows"}, Linux: {"linux"},
}

// labels are platforms as their own programs spell them.
var labels = []struct {
	platform string
	label    *regexp.Regexp
}{
	{IOS, regexp.MustCompile(`^(?:ios|ipados) \d+(?:\.\d+){0,2}$`)},
	{WatchOS, regexp.MustCompile(`^watchos \d+(?:\.\d+){0,2}$`)},
	{MacOS, regexp.MustCompile(`^macos \d+(?:\.\d+){0,2}$`)},
	{Android, regexp.MustCompile(`^android \d+(?: \(sdk \d+\))?$`)},
}

// guesses are how a family gives away the platform of a node that names none.
var guesses = []struct{ part, platform string }{
	{"iphone", IOS}, {"ipad", IOS}, {"ios", IOS}, {"apple watch", WatchOS}, {"watchos", WatchOS}, {"android", Android},
	{"mac", MacOS}, {"windows", Windows}, {"linux", Linux},
}

// PlatformOf is the platform of a node, according to what it says about itself. A
// desktop has to name its family too, except that programs with the id node-host
// need not: see [Client.Complete].
func PlatformOf(platform, family string) string {
	p, f := folded(platform), folded(family)
	if families, ok := familyOf[p]; ok {
		if slices.Contains(families, f) {
			return p
		}
		return Unlisted
	}
	for _, l := range labels {
		if l.label.MatchString(p) && f != "" && slices.Contains(familyOf[l.platform], f) {
			return l.platform
		}
	}
	if p != "" {
		return Unlisted
	}
	for _, g := range guesses {
		if strings.Contains(f, g.part) {
			return g.platform
		}
	}
	return Unlisted
}

// folded is a text in lower case and without accents, as platforms are compared.
func folded(s string) string {
	marks := func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}
	return strings.ToLower(strings.Map(marks, norm.NFKD.String(strings.TrimSpace(s))))
}

// Complete fills in the family that node-host programs may leave out.
func (c Client) Complete() Client {
	if c.ID == ClientNode && strings.TrimSpace(c.DeviceFamily) == "" {
		switch folded(c.Platform) {
		case Linux:
			c.DeviceFamily = "Linux"
		case MacOS:
			c.DeviceFamily = "Mac"
		case Windows:
			c.DeviceFamily = "Windows"
		}
	}
	return c
}

// allowed are the commands that may be called, or, with pairing, that may be
// declared.
func (p Policy) allowed(s *Surface, pairing bool) map[string]bool {
	platform := PlatformOf(s.Platform, s.Family)
	desktop := platform == MacOS || platform == Windows || platform == Linux
	all := map[string]bool{}
	add := func(commands ...string) {
		for _, c := range commands {
			if c = strings.TrimSpace(c); c != "" && (pairing || !dangerous[c]) {
				all[c] = true
			}
		}
	}
	add(platformCommands[platform]...)
	if platform == IOS && folded(s.Family) == "iphone" {
		add("watch.status", "watch.notify")
	}
	if s.talks() {
		add(talkCommands...)
	}
	if desktop && pairing {
		for c := range desktopHost {
			add(c)
		}
	}
	if desktop {
		for _, c := range s.Approved {
			if c = strings.TrimSpace(c); desktopHost[c] {
				add(c)
			}
		}
	}
	for _, c := range p.Allow {
		if c = strings.TrimSpace(c); c != "" {
			all[c] = true
		}
	}
	for _, c := range p.Deny {
		if c = strings.TrimSpace(c); !pairing || !dangerous[c] {
			delete(all, c)
		}
	}
	for c := range private {
		delete(all, c)
	}
	return all
}

// talks says whether a node can talk.
func (s *Surface) talks() bool {
	lower := func(c string) string { return strings.ToLower(strings.TrimSpace(c)) }
	return slices.ContainsFunc(s.Caps, func(c string) bool { return lower(c) == "talk" }) ||
		slices.ContainsFunc(s.Declared, func(c string) bool { return strings.HasPrefix(lower(c), "talk.") })
}

// Declarable are those of the declared commands that the node's owner is asked
// about, each once. The others are as if the node had not declared them.
func (p Policy) Declarable(s *Surface) []string {
	allowed := p.allowed(s, true)
	out := []string{}
	for _, c := range s.Declared {
		if c = strings.TrimSpace(c); allowed[c] && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// Effective are the commands that the node has: declarable and approved.
func (p Policy) Effective(s *Surface) []string {
	return slices.DeleteFunc(p.Declarable(s), func(c string) bool { return !slices.Contains(s.Approved, c) })
}

// Why a command is refused, in the details of [Policy.Refuse].
const (
	NotAllowlisted  = "command not allowlisted"
	NotDeclared     = "command not declared by node"
	NothingDeclared = "node did not declare commands"
)

// Refuse says why an operator with these scopes may not call a command of a node, in
// the words that the operator is told; nil: it may. A node of which nothing was ever
// approved is not its business: see [PairingChanged].
func (p Policy) Refuse(s *Surface, command string, scopes []string) *Error {
	command = strings.TrimSpace(command)
	switch {
	case private[command]:
		return refusedCommand("node.invoke does not allow private node controls", "", command)
	case command == "system.execApprovals.get" || command == "system.execApprovals.set":
		return refusedCommand("node.invoke does not allow system.execApprovals.*; use exec.approvals.node.*", "", command)
	case adminInvoke[command] && !HasScope(scopes, ScopeAdmin):
		return MissingScope(ScopeAdmin)
	}
	platform := s.Platform
	if platform == "" {
		platform = Unlisted
	}
	has := p.Effective(s)
	switch {
	case !p.allowed(s, false)[command]:
		return refusedCommand("node command not allowed: "+p.notAllowed(command, platform), NotAllowlisted, command)
	case len(has) == 0 && slices.Contains(s.Declared, command):
		return refusedCommand("node command not allowed: the node's declared command surface is pending approval; run `openclaw nodes pending`, "+
			"then `openclaw nodes approve <requestId>`", NothingDeclared, command)
	case len(has) == 0:
		return refusedCommand("node command not allowed: the node did not declare any supported commands", NothingDeclared, command)
	case !slices.Contains(has, command):
		return refusedCommand("node command not allowed: the node (platform: "+platform+`) does not support "`+command+`"`, NotDeclared, command)
	}
	return nil
}

func (p Policy) notAllowed(command, platform string) string {
	denied := slices.ContainsFunc(p.Deny, func(c string) bool { return strings.TrimSpace(c) == command })
	switch {
	case strings.HasPrefix(command, "talk."):
		return `"` + command + `" requires a trusted Talk-capable node`
	case denied:
		return `"` + command + `" is blocked by gateway.nodes.commands.deny`
	case dangerous[command]:
		return `"` + command + `" requires explicit gateway.nodes.commands.allow opt-in`
	}
	return `"` + command + `" is not in the allowlist for platform "` + platform + `"`
}

func refusedCommand(message, reason, command string) *Error {
	b := []byte{'{'}
	if reason != "" {
		b = append(appendText(append(b, `"reason":`...), reason), ',')
	}
	b = append(appendText(append(b, `"command":`...), command), '}')
	return &Error{Code: InvalidRequest, Message: message, Details: json.RawMessage(b)}
}

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}
