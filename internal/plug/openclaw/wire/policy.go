package wire

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// The platforms that a gateway distinguishes (src/gateway/node-command-policy.ts).
const (
	IOS             = "ios"
	WatchOS         = "watchos"
	Android         = "android"
	MacOS           = "macos"
	Windows         = "windows"
	Linux           = "linux"
	UnknownPlatform = "unknown" // all others
)

// Surface describes a node: its identity, its declared commands, and those its owner approved.
type Surface struct {
	Platform string
	Family   string
	Caps     []string
	Declared []string // commands the node declares
	Approved []string // commands its owner has approved
}

// Policy is what a gateway's owner has decided about commands, beyond the platform defaults. Names
// are exact, without patterns (docs/nodes/command-policy.md).
type Policy struct {
	Allow []string
	Deny  []string // takes precedence
}

// desktopCommands are commands with deep access to a computer. A desktop may declare them, and they
// are allowed once approved (src/gateway/node-command-policy.ts).
var desktopCommands = nameSet(
	"system.run.prepare", "system.run", "system.which", "system.execApprovals.get", "system.execApprovals.set",
	"fs.listDir",
	"terminal.upload", "browser.proxy", "browser.proxy.upload.v1", CommandTool, "agent.cli.claude.run.v1",
	"screen.snapshot", "desktop.stream",
)

// dangerousCommands may be declared, and are executed only if they are in Allow
// (src/gateway/node-command-policy.ts, DEFAULT_DANGEROUS_NODE_COMMANDS).
var dangerousCommands = nameSet(
	"camera.snap", "camera.clip", "camera.ptz.control", "screen.record", "contacts.add", "calendar.add",
	"reminders.add",
	"sms.send", "sms.search", "health.summary",
)

// internalCommands are used between gateways and their workers.
var internalCommands = nameSet(
	"worker.bundle.install.v1", "worker.launch.v1", "worker.status.v1", "worker.cancel.v1",
	"worker.environment.stop.v1",
	"worker.workspace.exec.v1", "worker.workspace.prepare.v1", "worker.workspace.retain.v1", "worker.desktop.stream.v1",
	"worker.desktop.launch.v1", "worker.desktop.computer.v1", "worker.portal.stream.v1",
)

// adminInvokeCommands require operator.admin to call (docs/gateway/operator-scopes.md, "Method
// scope is only the first gate"), and adminApprovalCommands to approve
// (src/infra/node-pairing-authz.ts, resolveNodePairApprovalScopes).
var (
	adminInvokeCommands   = nameSet("browser.proxy", "browser.proxy.upload.v1", "fs.listDir", "terminal.upload")
	adminApprovalCommands = nameSet(
		"browser.proxy", "browser.proxy.upload.v1", "fs.listDir", "terminal.upload", "system.run.prepare", "system.run",
		"system.which",
		"system.execApprovals.get", "system.execApprovals.set",
	)
)

// talkCommands are for nodes with voice (src/gateway/node-command-policy.ts, TALK_PTT_COMMANDS).
var talkCommands = []string{"talk.ptt.start", "talk.ptt.stop", "talk.ptt.cancel", "talk.ptt.once"}

// platformCommands are the default commands of a platform (src/gateway/node-command-policy.ts,
// PLATFORM_DEFAULTS). Desktops have desktopCommands in addition.
var platformCommands = map[string][]string{
	IOS: {
		"camera.list", "location.get", "device.info", "device.status", "contacts.search", "calendar.events",
		"reminders.list",
		"photos.latest", "motion.activity", "motion.pedometer", "system.notify",
	},
	WatchOS: {"device.info", "device.status", "system.notify"},
	Android: {
		"camera.list", "location.get", "notifications.list", "notifications.actions", "system.notify", "device.info",
		"device.status",
		"device.permissions", "device.health", "device.apps", "contacts.search", "calendar.events", "callLog.search",
		"reminders.list",
		"photos.latest", "motion.activity", "motion.pedometer", "mobile.ui.observe", "mobile.ui.act",
	},
	MacOS: {
		"camera.list", "camera.ptz.status", "location.get", "device.info", "device.status", "device.apps",
		"contacts.search",
		"calendar.events", "reminders.list", "photos.latest", "motion.activity", "motion.pedometer", "system.notify",
		"computer.act",
		"ollama.models", "ollama.chat",
	},
	// ollama.*: the plugin of that name, which OpenClaw brings along, allows them to
	// desktops (extensions/ollama/src/node-inference-contract.ts of 2026.9.6).
	Windows: {"camera.list", "location.get", "device.info", "device.status", "system.notify", "computer.act",
		"ollama.models", "ollama.chat"},
	Linux:           {"system.notify", "computer.act", "ollama.models", "ollama.chat"},
	UnknownPlatform: {"camera.list", "location.get", "system.notify"},
}

// platformFamilies are the device families that confirm a platform's name
// (src/gateway/node-command-policy.ts).
var platformFamilies = map[string][]string{
	IOS: {"", "iphone", "ipad", "ios"}, WatchOS: {"apple watch", "watchos"}, Android: {"", "android"},
	MacOS: {"mac"}, Windows: {"windows"}, Linux: {"linux"},
}

// platformLabels are the platform names that their own programs use
// (src/gateway/node-command-policy.ts).
var platformLabels = []struct {
	platform string
	label    *regexp.Regexp
}{
	{IOS, regexp.MustCompile(`^(?:ios|ipados) \d+(?:\.\d+){0,2}$`)},
	{WatchOS, regexp.MustCompile(`^watchos \d+(?:\.\d+){0,2}$`)},
	{MacOS, regexp.MustCompile(`^macos \d+(?:\.\d+){0,2}$`)},
	{Android, regexp.MustCompile(`^android \d+(?: \(sdk \d+\))?$`)},
}

// familyGuesses map a device family to a platform, for nodes that name none
// (src/gateway/node-command-policy.ts).
var familyGuesses = []struct{ part, platform string }{
	{"iphone", IOS}, {"ipad", IOS}, {"ios", IOS}, {"apple watch", WatchOS}, {"watchos", WatchOS}, {"android", Android},
	{"mac", MacOS}, {"windows", Windows}, {"linux", Linux},
}

// PlatformOf returns the platform of a node from its platform and device family. A desktop has
// to give its family too, except programs with the id node-host: see [Client.Complete].
func PlatformOf(platform, family string) string {
	p, f := foldAccents(platform), foldAccents(family)
	if families, ok := platformFamilies[p]; ok {
		if slices.Contains(families, f) {
			return p
		}
		return UnknownPlatform
	}
	for _, l := range platformLabels {
		if l.label.MatchString(p) && f != "" && slices.Contains(platformFamilies[l.platform], f) {
			return l.platform
		}
	}
	if p != "" {
		return UnknownPlatform
	}
	for _, g := range familyGuesses {
		if strings.Contains(f, g.part) {
			return g.platform
		}
	}
	return UnknownPlatform
}

// foldAccents returns a text in lower case and without accents, the form in which platforms are
// compared (src/gateway/node-command-policy.ts, normalizeDeviceMetadataForPolicy).
func foldAccents(s string) string {
	marks := func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}
	return strings.ToLower(strings.Map(marks, norm.NFKD.String(strings.TrimSpace(s))))
}

// Complete fills in the device family that node-host programs may omit.
func (c Client) Complete() Client {
	if c.ID == ClientNode && strings.TrimSpace(c.DeviceFamily) == "" {
		switch foldAccents(c.Platform) {
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

// allowed returns the commands that may be called, or, with pairing, that may be declared.
func (p Policy) allowed(s *Surface, pairing bool) map[string]bool {
	platform := PlatformOf(s.Platform, s.Family)
	desktop := platform == MacOS || platform == Windows || platform == Linux
	all := map[string]bool{}
	add := func(commands ...string) {
		for _, c := range commands {
			if c = strings.TrimSpace(c); c != "" && (pairing || !dangerousCommands[c]) {
				all[c] = true
			}
		}
	}
	add(platformCommands[platform]...)
	if platform == IOS && foldAccents(s.Family) == "iphone" {
		add("watch.status", "watch.notify")
	}
	if s.hasTalk() {
		add(talkCommands...)
	}
	if desktop && pairing {
		for c := range desktopCommands {
			add(c)
		}
	}
	if desktop {
		for _, c := range s.Approved {
			if c = strings.TrimSpace(c); desktopCommands[c] {
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
		if c = strings.TrimSpace(c); !pairing || !dangerousCommands[c] {
			delete(all, c)
		}
	}
	for c := range internalCommands {
		delete(all, c)
	}
	return all
}

// hasTalk reports whether a node has voice.
func (s *Surface) hasTalk() bool {
	lower := func(c string) string { return strings.ToLower(strings.TrimSpace(c)) }
	return slices.ContainsFunc(s.Caps, func(c string) bool { return lower(c) == "talk" }) ||
		slices.ContainsFunc(s.Declared, func(c string) bool { return strings.HasPrefix(lower(c), "talk.") })
}

// Declarable returns the declared commands that need the owner's approval, without duplicates.
// Others count as not declared.
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

// Effective returns the commands that the node has: declarable and approved.
func (p Policy) Effective(s *Surface) []string {
	return slices.DeleteFunc(p.Declarable(s), func(c string) bool { return !slices.Contains(s.Approved, c) })
}

// Reasons of a refusal, in the details of [Policy.Refuse] (src/gateway/node-command-policy.ts).
const (
	NotAllowlisted  = "command not allowlisted"
	NotDeclared     = "command not declared by node"
	NothingDeclared = "node did not declare commands"
)

// Refuse returns the response to an operator that may not call a command of a node, or nil if it
// may. It does not handle nodes without any approval: see [PairingChanged].
func (p Policy) Refuse(s *Surface, command string, scopes []string) *Error {
	command = strings.TrimSpace(command)
	switch {
	case internalCommands[command]:
		return refusedCommand("node.invoke does not allow private node controls", "", command)
	case command == CommandPolicyGet || command == CommandPolicySet:
		return refusedCommand("node.invoke does not allow system.execApprovals.*; use exec.approvals.node.*",
			"", command)
	case adminInvokeCommands[command] && !HasScope(scopes, ScopeAdmin):
		return MissingScope(ScopeAdmin)
	}
	return p.refuseCommand(s, command)
}

// refuseCommand returns why a node does not have a command, or nil.
func (p Policy) refuseCommand(s *Surface, command string) *Error {
	platform := s.Platform
	if platform == "" {
		platform = UnknownPlatform
	}
	has := p.Effective(s)
	switch {
	case !p.allowed(s, false)[command]:
		return refusedCommand("node command not allowed: "+p.notAllowed(command, platform), NotAllowlisted, command)
	case len(has) == 0 && slices.Contains(s.Declared, command):
		return refusedCommand("node command not allowed: the node's declared command surface is pending approval; run `openclaw nodes pending`, "+
			"then `openclaw nodes approve <requestId>`", NothingDeclared, command)
	case len(has) == 0:
		return refusedCommand("node command not allowed: the node did not declare any supported commands",
			NothingDeclared, command)
	case !slices.Contains(has, command):
		return refusedCommand("node command not allowed: the node (platform: "+platform+`) does not support "`+command+
			`"`, NotDeclared, command)
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
	case dangerousCommands[command]:
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

func nameSet(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// KnownCommands returns the commands that some node of OpenClaw's own programs may have, sorted.
func KnownCommands() []string {
	all := map[string]bool{"watch.status": true, "watch.notify": true}
	maps.Copy(all, desktopCommands)
	maps.Copy(all, dangerousCommands)
	for _, commands := range platformCommands {
		maps.Copy(all, nameSet(commands...))
	}
	maps.Copy(all, nameSet(talkCommands...))
	return slices.Sorted(maps.Keys(all))
}
