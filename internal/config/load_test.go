package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

const hexSecret = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// home is an environment with only a home folder that does not exist, so that no test reads files
// of the user who runs it.
var home = []string{"HOME=/nowhere", "USERPROFILE=/nowhere"}

// write creates a file in a new folder and returns its path.
func write(t testing.TB, file, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load calls Load with a file of that text, if any, and an environment.
func load(t testing.TB, yaml string, env []string, flags map[string]string) (*Config, []Origin, string, error) {
	t.Helper()
	s := Sources{Env: append(env[:len(env):len(env)], home...), Flags: flags}
	if yaml != "" {
		s.File = write(t, "board.yaml", yaml)
	}
	c, origins, err := Load(s)
	return c, origins, s.File, err
}

func TestDefaults(t *testing.T) {
	c, origins, err := Load(Sources{Env: home})
	if err != nil {
		t.Fatal(err)
	}
	if len(origins) != 0 {
		t.Errorf("origins of nothing: %v", origins)
	}
	want := &Config{
		Listen: "127.0.0.1:3000", LocalName: "patchbay", Data: "/nowhere/.local/share/patchbay", Lang: "zh", Proxies: []string{},
		Log:      Log{Level: "info", Format: "text"},
		Database: Database{MaxConns: 12},
		Limits: Limits{AuthFailures: 10, Body: MiB, BodyImages: 8 * MiB, Connections: 1000, Streams: 500,
			StreamsOfKey: 200, Turns: 2000, Calls: 2000, CallRate: 3000},
		Turn: Turn{FirstPiece: 55 * time.Second, Idle: time.Minute, Late: 10 * time.Minute,
			Heartbeat: 7 * time.Second, Grace: 45 * time.Second},
		Relay: Relay{Servers: []string{}},
		Lingzhu: Lingzhu{ErrorStyle: "sse", WaitingAfter: 8 * time.Second, Binding: true,
			BindingHosts: []string{"*.rokidcdn.com"},
			PushURL:      "https://rcs.rokid.com", ImagesPerHour: 60},
		Fetch: Fetch{AllowHosts: []string{}, AllowNets: []string{}, Private: []string{}, MaxBytes: 5 * MiB,
			Timeout: 15 * time.Second},
		Trace:   Trace{Keep: 168 * time.Hour},
		History: History{Keep: 720 * time.Hour, Turns: 20},
		Media:   Media{Keep: time.Hour},
		MCP: MCP{Registry: "https://registry.modelcontextprotocol.io", Hosts: []string{}, Origins: []string{},
			Sessions: 10000, SessionsOfKey: 2500,
			Idle: 30 * time.Minute},
		Learn: Learn{ImportSize: 1024 * MiB, MediaSize: 4096 * MiB, EmbeddingsModel: "text-embedding-3-small", EmbeddingsDims: 256,
			AnkiOrigins: []string{"http://localhost", "app://obsidian.md"}},
		OTLP: OTLP{Sample: 100}, Upgrade: Upgrade{Backups: 3},
		Audit: Audit{Keep: 2160 * time.Hour},
		XiaoZhi: XiaoZhi{Transport: "websocket", Framing: 1, Keepalive: 4 * time.Minute, Boards: 20000, Sockets: 5000,
			Silence: time.Minute, Linger: 10 * time.Minute, Voice: "answer",
			Origins: []string{"*"},
			WakeWords: []string{"你好小智", "嘿你好呀", "小智小智", "你好小志", "你好小鑫", "你好小新", "小美同学",
				"小龙小龙", "喵喵同学", "小冰小冰", "嗨小智", "Hi ESP", "Jarvis", "Sophia", "Hey Willow"}},
		HTTPS: HTTPS{Names: []string{}, DNSCommand: []string{}, Challenge: "auto", DNSWait: 30 * time.Second,
			Directory: "https://acme-v02.api.letsencrypt.org/directory", Redirect: ":80", HSTS: 365 * 24 * time.Hour,
			Chain: "ISRG Root X1"},
		Speech: Speech{Format: "opus", ListenCommand: []string{}, SpeakCommand: []string{}},
		OIDC:   OIDC{Scopes: []string{"openid", "profile", "email"}, Allow: []string{}},
		Nodes:  Nodes{Allow: []string{}, Deny: []string{}, ApproveLocal: true, Connections: 10000},
	}
	if got := c.Data; filepath.Separator == '/' && got != want.Data {
		t.Errorf("data = %q", got)
	}
	want.Data = c.Data
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%v\nwant\n%v", c, want)
	}
}

func TestPrecedence(t *testing.T) {
	const file = "log:\n  level: debug\n"
	env := []string{"PATCHBAY_LOG_LEVEL=warn"}
	flags := map[string]string{"log.level": "error"}
	for _, tt := range []struct {
		name  string
		file  string
		env   []string
		flags map[string]string
		want  string
		where string
	}{
		{"default", "", nil, nil, "info", ""},
		{"file", file, nil, nil, "debug", "line 2 of FILE"},
		{"environment over file", file, env, nil, "warn", "PATCHBAY_LOG_LEVEL"},
		{"empty environment is not given", file, []string{"PATCHBAY_LOG_LEVEL="}, nil, "debug", "line 2 of FILE"},
		{"last of several variables", "", []string{"PATCHBAY_LOG_LEVEL=warn", "PATCHBAY_LOG_LEVEL=error"}, nil, "error",
			"PATCHBAY_LOG_LEVEL"},
		{"flag over all", file, env, flags, "error", "--log-level"},
		{"flag over file", file, nil, flags, "error", "--log-level"},
		{"flag over default", "", nil, flags, "error", "--log-level"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, origins, path, err := load(t, tt.file, tt.env, tt.flags)
			if err != nil {
				t.Fatal(err)
			}
			if c.Log.Level != tt.want {
				t.Errorf("level = %q, want %q", c.Log.Level, tt.want)
			}
			where := ""
			for _, o := range origins {
				if o.Path == "log.level" {
					where = strings.Replace(o.Where(), "of "+path, "of FILE", 1)
				}
			}
			if where != tt.where {
				t.Errorf("origin is %q, want %q", where, tt.where)
			}
		})
	}
}

// TestEveryKey sets each key to another valid value by each source, and checks that it arrives and
// that nothing else changes.
func TestEveryKey(t *testing.T) {
	other := map[string]string{
		"listen": ":4000", "local_name": "home", "public_url": "https://board.example.org", "data": "/srv/patchbay", "lang": "en",
		"secret": hexSecret, "proxies": "10.0.0.0/8, 127.0.0.1",
		"log.level": "debug", "log.format": "json",
		"database.url": "postgres://u:p@db/patchbay", "database.max_conns": "3",
		"bus.url": "nats://a:4222,nats://b:4222", "bus.name": "eins", "bus.cert": "/c", "bus.key": "/k",
		"bus.ca":   "/ca",
		"tls.cert": "/tls/c", "tls.key": "/tls/k",
		"https.names": "a.example.org, b.example.org", "https.email": "anna@example.org",
		"https.directory": "https://ca.example.org/dir", "https.ca": "/ca", "https.challenge": "tls-alpn-01",
		"https.dns_command": "/dns, -v", "https.dns_wait": "1s", "https.redirect": ":8080", "https.hsts": "1d",
		"https.chain": "Root", "https.profile": "shortlived", "https.eab_kid": "k", "https.eab_key": "a2V5",
		"limits.auth_failures": "3", "limits.body": "2MiB", "limits.body_images": "9MiB", "limits.connections": "4",
		"limits.streams": "5", "limits.streams_of_key": "6", "limits.turns": "7", "limits.calls": "8",
		"limits.call_rate": "9",
		"mcp.hosts":        "nas.example.org", "mcp.origins": "https://app.example.org", "mcp.sessions": "11",
		"mcp.sessions_of_key": "12", "mcp.registry": "https://registry.example.org", "mcp.idle": "13m",
		"audit.keep": "3d", "audit.args": "true",
		"learn.time_zone": "Asia/Shanghai", "learn.import_size": "2MiB", "learn.media_size": "3GiB",
		"oidc.issuer": "https://auth.example.org", "oidc.client_id": "i", "oidc.client_secret": "s", "oidc.name": "n",
		"oidc.scopes": "openid", "oidc.allow": "@example.org, group:family", "oidc.create": "true", "oidc.only": "true",
		"learn.embeddings_url": "http://127.0.0.1:9/v1", "learn.embeddings_key": "k",
		"learn.embeddings_model": "m", "learn.embeddings_dims": "64",
		"learn.anki_listen": "127.0.0.1:8765", "learn.anki_key": "sk_1", "learn.anki_origins": "https://app.example.org",
		"otlp.url": "http://c:4318", "otlp.headers": "X-Key=1", "otlp.sample": "10", "upgrade.feed": "https://e.org/latest.json",
		"upgrade.backups": "5",
		"relay.servers":   "relay.example.org", "relay.key": "pbjoin_" + strings.Repeat("k", 70),
		"turn.first_piece": "20s", "turn.idle": "30s", "turn.late": "1h", "turn.heartbeat": "2s", "turn.grace": "9s",
		"lingzhu.error_style": "http", "lingzhu.quiet_start": "true", "lingzhu.waiting_text": "正在思考…",
		"lingzhu.waiting_after": "3s", "lingzhu.binding": "false", "lingzhu.push_url": "http://127.0.0.1:9",
		"lingzhu.images_per_hour": "5",
		"fetch.allow_hosts":       "*.example.org", "lingzhu.binding_hosts": "photos.example.org",
		"fetch.allow_nets": "192.168.0.0/16", "fetch.private_hosts": "ollama.lan", "fetch.max_bytes": "1MiB",
		"fetch.timeout": "1s",
		"trace.keep":    "1d", "trace.content": "true", "history.keep": "2d", "history.turns": "1", "media.keep": "2h",
		"metrics.listen": "127.0.0.1:9100", "metrics.open": "true",
		"xiaozhi.transport": "mqtt", "xiaozhi.framing": "2", "xiaozhi.mqtt": ":1883", "xiaozhi.mqtt_tls": ":8883",
		"xiaozhi.broker":    "board.example.org:1883",
		"xiaozhi.keepalive": "1m", "xiaozhi.audio": ":8884", "xiaozhi.audio_host": "192.0.2.1",
		"xiaozhi.audio_port": "9000",
		"xiaozhi.join":       "mqtts://mqtt.example.org", "xiaozhi.join_user": "patchbay", "xiaozhi.join_password": "p",
		"xiaozhi.join_secret": "s", "xiaozhi.join_events": "true",
		"xiaozhi.boards": "7", "xiaozhi.sockets": "8", "xiaozhi.firmware": "/srv/firmware",
		"xiaozhi.time_zone": "Asia/Shanghai",
		"xiaozhi.silence":   "30s", "xiaozhi.linger": "5m", "xiaozhi.voice": "off", "xiaozhi.wake_words": "你好",
		"xiaozhi.origins": "https://a.example, null",
		"speech.url":      "https://speech.example.org/v1", "speech.key": "k", "speech.listen_model": "whisper-1",
		"speech.speak_model": "tts-1", "speech.voice": "nova", "speech.format": "wav",
		"speech.speak_url": "http://127.0.0.1:8880/v1", "speech.speak_key": "k",
		"speech.listen_command": "whisper-cli, -f, {file}", "speech.speak_command": "espeak-ng, --stdout",
		"speech.person_minutes": "60", "speech.person_characters": "50000", "speech.device_minutes": "30",
		"speech.device_characters": "20000", "speech.currency": "USD",
		"nodes.allow": "camera.snap", "nodes.deny": "system.run", "nodes.approve_local": "false",
		"nodes.connections": "100",
	}
	// Keys that other keys require.
	with := map[string][]string{
		"bus.url":  {"database.url", "secret"},
		"bus.name": nil,
		"bus.cert": {"bus.key", "bus.url", "database.url", "secret"},
		"bus.key":  {"bus.cert", "bus.url", "database.url", "secret"},
		"bus.ca":   {"bus.url", "database.url", "secret"},
		"tls.cert": {"tls.key"}, "tls.key": {"tls.cert"},
		"https.names":   {"listen", "public_url"}, // which follow from it
		"https.eab_kid": {"https.eab_key"}, "https.eab_key": {"https.eab_kid"},
		"otlp.headers": {"otlp.url"},
		"oidc.issuer":  {"oidc.client_id"}, "oidc.client_id": {"oidc.issuer"},
		"oidc.client_secret": {"oidc.issuer", "oidc.client_id"}, "oidc.only": {"oidc.issuer", "oidc.client_id"},
		"oidc.create":       {"oidc.issuer", "oidc.client_id", "oidc.allow"},
		"xiaozhi.transport": {"xiaozhi.mqtt"}, "xiaozhi.mqtt_tls": {"tls.cert", "tls.key"},
	}
	for _, k := range Keys() {
		text, ok := other[k.Path]
		if !ok || text == k.Default {
			t.Errorf("%s: the test has no other value", k.Path)
			continue
		}
		given := map[string]string{k.Path: text}
		for _, w := range with[k.Path] {
			given[w] = other[w]
		}
		var env []string
		for path, text := range given {
			env = append(env, known.byPath[path].Env+"="+text)
		}
		for source, try := range map[string]func() (*Config, []Origin, string, error){
			"file":        func() (*Config, []Origin, string, error) { return load(t, yamlOf(given), nil, nil) },
			"environment": func() (*Config, []Origin, string, error) { return load(t, "", env, nil) },
			"flag":        func() (*Config, []Origin, string, error) { return load(t, "", nil, given) },
		} {
			c, origins, _, err := try()
			if err != nil {
				t.Errorf("%s by %s: %v", k.Path, source, err)
				continue
			}
			if len(origins) != len(given) {
				t.Errorf("%s by %s: %d origins of %d values: %v", k.Path, source, len(origins), len(given), origins)
			}
			for _, any := range known.keys {
				want, set := given[any.Path]
				if !set {
					want = any.Default
				}
				if any.Path == "data" && !set {
					continue
				}
				if got := any.text(any.of(c)); got != want {
					t.Errorf("%s by %s: %s = %q, want %q", k.Path, source, any.Path, got, want)
				}
			}
		}
	}
}

// yamlOf returns a file that sets these values.
func yamlOf(given map[string]string) string {
	var b strings.Builder
	at := ""
	for _, k := range known.keys {
		text, ok := given[k.Path]
		if !ok {
			continue
		}
		g, leaf, nested := strings.Cut(k.Path, ".")
		if !nested {
			b.WriteString(k.Path + ": " + k.yaml(k.must(text)) + "\n")
			continue
		}
		if g != at {
			b.WriteString(g + ":\n")
			at = g
		}
		b.WriteString("  " + leaf + ": " + k.yaml(k.must(text)) + "\n")
	}
	return b.String()
}

// What follows from automatic certificates is set unless it is given.
func TestAutomaticHTTPS(t *testing.T) {
	c, origins, _, err := load(t, "", nil, map[string]string{"https.names": "Board.example.org., other.example.org"})
	if err != nil || c.Listen != ":443" || c.PublicURL != "https://board.example.org" || len(origins) != 1 {
		t.Errorf("%s, %s, %v, %v", c.Listen, c.PublicURL, origins, err)
	}
	c, _, _, err = load(t, "listen: :8443\npublic_url: https://board.example.org:8443\nhttps: {names: board.example.org}",
		nil, nil)
	if err != nil || c.Listen != ":8443" || c.PublicURL != "https://board.example.org:8443" {
		t.Errorf("%s, %s, %v", c.Listen, c.PublicURL, err)
	}
}

func TestValuesInFile(t *testing.T) {
	for _, tt := range []struct {
		name, yaml string
		got        func(*Config) any
		want       any
	}{
		{"comments only", "# nothing\n", func(c *Config) any { return c.Lang }, "zh"},
		{"empty document", "---\n", func(c *Config) any { return c.Lang }, "zh"},
		{"empty group", "log:\nlang: en\n", func(c *Config) any { return c.Lang }, "en"},
		{"byte order mark", "\ufefflang: en\n", func(c *Config) any { return c.Lang }, "en"},
		{"windows lines", "lang: en\r\nlog:\r\n  level: warn\r\n", func(c *Config) any { return c.Log.Level }, "warn"},
		{"choice in capitals", "log: {level: WARN}", func(c *Config) any { return c.Log.Level }, "warn"},
		{"digits stay as written", "secret: " + strings.Repeat("0123456789", 7) + "\n",
			func(c *Config) any { return c.Secret }, strings.Repeat("0123456789", 7)},
		{"word no is text", "lingzhu: {waiting_text: no}", func(c *Config) any { return c.Lingzhu.WaitingText }, "no"},
		{"word yes is true", "metrics: {open: yes}", func(c *Config) any { return c.Metrics.Open }, true},
		{"quoted number", "limits: {turns: \"7\"}", func(c *Config) any { return c.Limits.Turns }, 7},
		{"days", "trace: {keep: 1d12h}", func(c *Config) any { return c.Trace.Keep }, 36 * time.Hour},
		{"bytes without unit", "limits: {body: 2048}", func(c *Config) any { return c.Limits.Body }, 2 * KiB},
		{"list of lines", "proxies:\n  - 10.0.0.0/8\n  - ::1\n", func(c *Config) any { return c.Proxies },
			[]string{"10.0.0.0/8", "::1"}},
		{"list on one line", "proxies: [10.0.0.0/8, \"::1\"]", func(c *Config) any { return c.Proxies },
			[]string{"10.0.0.0/8", "::1"}},
		{"list with commas", "proxies: 10.0.0.0/8, ::1", func(c *Config) any { return c.Proxies },
			[]string{"10.0.0.0/8", "::1"}},
		{"empty list", "proxies: []", func(c *Config) any { return c.Proxies }, []string{}},
		{"slash of an address", "public_url: https://board.example.org/", func(c *Config) any { return c.PublicURL },
			"https://board.example.org"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, _, err := load(t, tt.yaml, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(c); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct {
		name  string
		yaml  string
		env   []string
		flags map[string]string
		want  []string // in order; FILE is the file's path
	}{
		// Unknown names.
		{"misspelt", "lang: en\n\nlisen: :3\n", nil, nil,
			[]string{"lisen on line 3 of FILE is no known key: did you mean listen?"}},
		{"misspelt beneath", "log:\n  levl: info\n", nil, nil,
			[]string{"log.levl on line 2 of FILE is no known key: did you mean log.level?"}},
		{"misspelt group", "dtabase:\n  url: x\n", nil, nil,
			[]string{"dtabase on line 1 of FILE is no known key: did you mean database?"}},
		{"capitals", "publicURL: x", nil, nil,
			[]string{"publicURL on line 1 of FILE is no known key: did you mean public_url?"}},
		{"dash", "log: {}\nturn: {first-piece: 1s}", nil, nil,
			[]string{"turn.first-piece on line 2 of FILE is no known key: did you mean turn.first_piece?"}},
		{"wrong group", "error_style: sse", nil, nil,
			[]string{"error_style on line 1 of FILE is no known key: did you mean lingzhu.error_style?"}},
		{"one of several groups", "keep: 1d", nil, nil,
			[]string{"keep on line 1 of FILE is no known key: did you mean audit.keep, history.keep, media.keep or trace.keep?"}},
		{"path as a name", "database.max_conns: 3", nil, nil,
			[]string{"database.max_conns on line 1 of FILE is no known key: write max_conns on a line of its own beneath database, indented"}},
		{"nothing near", "zzzzzzzzzzzz: 3", nil, nil,
			[]string{`zzzzzzzzzzzz on line 1 of FILE is no known key: "patchbay config doc" lists the known ones`}},
		{"odd name", `"a b\n": 3`, nil, nil,
			[]string{`"a b\n" on line 1 of FILE is no known key: "patchbay config doc" lists the known ones`}},
		{"file of what is no secret", "listen_file: x", nil, nil,
			[]string{`listen_file on line 1 of FILE is no known key: "patchbay config doc" lists the known ones`}},
		{"merge key", "<<: {lang: en}", nil, nil,
			[]string{`"<<" on line 1 of FILE is no known key: "patchbay config doc" lists the known ones`}},
		{"misspelt variable", "", []string{"PATCHBAY_LISEN=x"}, nil,
			[]string{"PATCHBAY_LISEN is no known environment variable: did you mean PATCHBAY_LISTEN?"}},
		{"misspelt variable of a secret's file", "", []string{"PATCHBAY_DATABASE_URL_FIEL=x"}, nil,
			[]string{"PATCHBAY_DATABASE_URL_FIEL is no known environment variable: did you mean PATCHBAY_DATABASE_URL_FILE?"}},
		{"port as people guess it", "", []string{"PATCHBAY_PORT=3000"}, nil,
			[]string{`PATCHBAY_PORT is no known environment variable: "patchbay config doc" lists the known ones`}},
		{"unknown flag", "", nil, map[string]string{"lisen": "x"},
			[]string{"lisen is no known key: did you mean listen?"}},

		// Structure of the file.
		{"twice", "lang: en\nlisten: :3\nlang: zh\n", nil, nil,
			[]string{"lang on line 3 of FILE was given before, by line 1: keep one of the two"}},
		{"twice beneath", "log:\n  level: info\n  level: warn\n", nil, nil,
			[]string{"log.level on line 3 of FILE was given before, by line 2: keep one of the two"}},
		{"group twice", "log:\n  level: info\nlog:\n  format: json\n", nil, nil,
			[]string{"log on line 3 of FILE was given before, by line 1: keep one of the two"}},
		{"group with a value", "log: debug", nil, nil,
			[]string{"log on line 1 of FILE is a group of keys, not a value: write its keys on lines of their own beneath it, indented"}},
		{"value with a group", "lang: {a: b}", nil, nil,
			[]string{"lang on line 1 of FILE has more than one value: give " + joinOr(languages())}},
		{"value with a list", "lang: [en]", nil, nil,
			[]string{"lang on line 1 of FILE has more than one value: give " + joinOr(languages())}},
		{"no value", "lang:\n", nil, nil,
			[]string{`lang on line 1 of FILE has no value: give one, "" if it is to be empty, or take the line out`}},
		{"home as YAML sees it", "data: ~\n", nil, nil,
			[]string{`data on line 1 of FILE has no value: give one, "" if it is to be empty, or take the line out`}},
		{"list of lists", "proxies: [[1]]", nil, nil,
			[]string{`proxies on line 1 of FILE has an item that is no text: write items such as "- 10.0.0.0/8"`}},
		{"list with nothing", "proxies:\n  -\n", nil, nil,
			[]string{`proxies on line 2 of FILE has an item that is no text: write items such as "- 10.0.0.0/8"`}},
		{"alias", "listen: &a \":3\"\nlang: *a\n", nil, nil,
			[]string{`lang on line 2 of FILE has an alias as its value: write the value itself, in quotes if it begins with "*"`}},
		{"unknown alias keeps quiet", "secret: *hunter2\n", nil, nil,
			[]string{`FILE is not YAML (an alias; quote a value that begins with "*"): correct that line or the one above it`}},
		{"tag", "lang: !hunter2 en", nil, nil,
			[]string{`lang on line 1 of FILE has a value with a tag: write the value itself, in quotes if it begins with "!"`}},
		{"a list", "- lang\n", nil, nil,
			[]string{`FILE on line 1 holds no keys: write lines such as "listen: 127.0.0.1:3000"`}},
		{"key that is no word", "lang: en\n[a]: b\n", nil, nil,
			[]string{`FILE on line 2 has a key that is no word: write lines such as "listen: 127.0.0.1:3000"`}},
		{"two documents", "lang: en\n---\nlang: zh\n", nil, nil,
			[]string{`FILE holds more than one document: take out the line "---" and what follows it`}},
		{"no YAML", "lang: en\n\tlisten: :3\n", nil, nil,
			[]string{"FILE is not YAML (line 2: found a tab character that violates indentation): correct that line or the one above it"}},
		{"too large", strings.Repeat("# 0123456789\n", maxFile/13+1), nil, nil,
			[]string{"FILE is larger than 1MiB: name a configuration file, which is far smaller"}},

		// Values.
		{"number", "limits:\n  turns: many\n", nil, nil,
			[]string{`limits.turns on line 2 of FILE is "many": give a whole number such as 10, from 1 to 1000000`}},
		{"number in the environment", "", []string{"PATCHBAY_LIMITS_TURNS=1.5"}, nil,
			[]string{`limits.turns in PATCHBAY_LIMITS_TURNS is "1.5": give a whole number such as 10, from 1 to 1000000`}},
		{"duration by flag", "", nil, map[string]string{"turn.idle": "60"},
			[]string{`turn.idle in --turn-idle is "60": give a duration such as 7s, 10m or 30d, from 100ms to 1h`}},
		{"empty flag", "", nil, map[string]string{"turn.idle": ""},
			[]string{`turn.idle in --turn-idle is "": give a duration such as 7s, 10m or 30d, from 100ms to 1h`}},
		{"size", "limits: {body: 1.5MiB}", nil, nil,
			[]string{`limits.body on line 1 of FILE is "1.5MiB": give a size such as 512KiB or 8MiB, from 1KiB to 64MiB`}},
		{"bool", "metrics: {open: maybe}", nil, nil,
			[]string{`metrics.open on line 1 of FILE is "maybe": give true or false`}},
		{"choice", "lang: de", nil, nil, []string{`lang on line 1 of FILE is "de": give ` + joinOr(languages())}},
		{"control characters", "", nil, map[string]string{"bus.name": "a\x1b[31m"},
			[]string{`bus.name in --bus-name is "a\x1b[31m": give text on one line, without control characters`}},
		{"secret of the wrong form is not shown", "", nil, map[string]string{"database.url": "hunter2\n"},
			[]string{`database.url in --database-url has a value of the wrong form: give text on one line, without control characters`}},
		{"no UTF-8", "", []string{"PATCHBAY_BUS_NAME=\xff"}, nil,
			[]string{`bus.name in PATCHBAY_BUS_NAME is "\xff": give text on one line, without control characters`}},
		{"long value", "lang: " + strings.Repeat("ü", 100), nil, nil,
			[]string{`lang on line 1 of FILE is "` + strings.Repeat("ü", 30) + `"…: give ` + joinOr(languages())}},
		{"too large a number", "limits: {turns: 99999999999999999999}", nil, nil,
			[]string{`limits.turns on line 1 of FILE is "99999999999999999999": give a whole number such as 10, from 1 to 1000000`}},

		// Several at once, in the order of the sources; contradictions last.
		{"together", "lisen: :3\nlang: de\nturn: {idle: soon}\n", []string{"PATCHBAY_FOOBARBAZ=1"},
			map[string]string{"tls.cert": "/c", "history.turns": "-1"}, []string{
				"lisen on line 1 of FILE is no known key: did you mean listen?",
				`turn.idle on line 3 of FILE is "soon": give a duration such as 7s, 10m or 30d, from 100ms to 1h`,
				`PATCHBAY_FOOBARBAZ is no known environment variable: "patchbay config doc" lists the known ones`,
				`lang on line 2 of FILE is "de": give ` + joinOr(languages()),
				"history.turns in --history-turns is -1: give a whole number such as 10, from 1 to 1000",
				"tls.cert in --tls-cert is given without tls.key: give both, or neither",
			}},
		{"two of one key", "proxies: [a, b]", nil, nil, []string{
			`proxies on line 1 of FILE holds "a": give addresses or ranges such as 192.168.1.7 or 10.0.0.0/8`,
			`proxies on line 1 of FILE holds "b": give addresses or ranges such as 192.168.1.7 or 10.0.0.0/8`,
		}},
		{"overridden and wrong all the same", "turn: {idle: soon}", []string{"PATCHBAY_TURN_IDLE=50s"}, nil, []string{
			`turn.idle on line 1 of FILE is "soon": give a duration such as 7s, 10m or 30d, from 100ms to 1h`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, path, err := load(t, tt.yaml, tt.env, tt.flags)
			want := strings.Join(tt.want, "\n")
			if path != "" {
				want = strings.ReplaceAll(want, "FILE is", path+" is")
				want = strings.ReplaceAll(want, "of FILE", "of "+path)
				want = strings.ReplaceAll(want, "FILE on", path+" on")
				want = strings.ReplaceAll(want, "FILE holds", path+" holds")
			}
			if err == nil {
				t.Fatalf("accepted:\n%v", c)
			}
			if err.Error() != want {
				t.Errorf("got\n%v\nwant\n%v", err, want)
			}
			if c != nil {
				t.Error("a configuration was returned all the same")
			}
			var problems Problems
			if !errors.As(err, &problems) || len(problems) != len(tt.want) {
				t.Errorf("%d problems of type %T, want %d", len(problems), err, len(tt.want))
			}
		})
	}
}

func TestManyProblemsEnd(t *testing.T) {
	var b strings.Builder
	for i := range 50_000 {
		b.WriteString("k" + strconv.Itoa(i) + ": 1\n")
	}
	_, _, path, err := load(t, b.String(), nil, nil)
	problems, _ := err.(Problems)
	if len(problems) != maxProblems+1 {
		t.Fatalf("%d problems", len(problems))
	}
	want := path + " on line 51 is not read further: solve the problems above first"
	if got := problems[maxProblems].Error(); got != want {
		t.Errorf("last is %q, want %q", got, want)
	}
}
