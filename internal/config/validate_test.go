package config

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	bus := func(c *Config) {
		c.Bus.URL, c.Database.URL, c.Secret = "nats://a:4222", "postgres://db/p", hexSecret
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string // empty: valid
	}{
		{"every address", func(c *Config) { c.Listen = ":3000" }, ""},
		{"IPv6", func(c *Config) { c.Listen = "[::1]:3000" }, ""},
		{"name", func(c *Config) { c.Listen = "localhost:0" }, ""},
		{"port alone", func(c *Config) { c.Listen = "3000" },
			`listen is "3000": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"no listen", func(c *Config) { c.Listen = "" },
			`listen is "": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"port out of range", func(c *Config) { c.Listen = ":65536" },
			`listen is ":65536": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"port by name", func(c *Config) { c.Listen = ":http" },
			`listen is ":http": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"URL for an address", func(c *Config) { c.Metrics.Listen = "http://x:80" },
			`metrics.listen is "http://x:80": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"path for a host", func(c *Config) { c.Metrics.Listen = "/run/x:80" },
			`metrics.listen is "/run/x:80": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"metrics elsewhere", func(c *Config) { c.Metrics.Listen = "127.0.0.1:9100" }, ""},
		{"metrics at the same place", func(c *Config) { c.Metrics.Listen = c.Listen },
			"metrics.listen is the same as listen: give another port, or leave it empty to serve /metrics with everything else"},
		{"listen of programs for Anki", func(c *Config) { c.Listen, c.Learn.AnkiListen = "127.0.0.1:1", "127.0.0.1:1" },
			"learn.anki_listen is the same as listen: give another port, or leave it empty: /anki is served there too"},
		{"a key for all machines", func(c *Config) { c.Learn.AnkiListen, c.Learn.AnkiKey = "0.0.0.0:8765", "sk_1" },
			`learn.anki_key is for programs of this machine, and learn.anki_listen is "0.0.0.0:8765": set learn.anki_listen to 127.0.0.1:8765, or let programs send a key`},
		{"both at any port", func(c *Config) { c.Listen, c.Metrics.Listen = ":0", ":0" }, ""},

		{"public address", func(c *Config) { c.PublicURL = "https://board.example.org:8443" }, ""},
		{"public address with a path", func(c *Config) { c.PublicURL = "https://example.org/board" },
			`public_url is "https://example.org/board": give scheme, host and port alone, such as https://board.example.org`},
		{"public address without scheme", func(c *Config) { c.PublicURL = "board.example.org" },
			`public_url is "board.example.org": give scheme, host and port alone, such as https://board.example.org`},
		{"public address with a query", func(c *Config) { c.PublicURL = "https://example.org?" },
			`public_url is "https://example.org?": give scheme, host and port alone, such as https://board.example.org`},
		{"public address of another scheme", func(c *Config) { c.PublicURL = "wss://example.org" },
			`public_url is "wss://example.org": give scheme, host and port alone, such as https://board.example.org`},
		{"public address without host", func(c *Config) { c.PublicURL = "https://:443" },
			`public_url is "https://:443": give scheme, host and port alone, such as https://board.example.org`},
		{"public address with a user", func(c *Config) { c.PublicURL = "https://u@x" },
			`public_url is "https://u@x": give scheme, host and port alone, such as https://board.example.org`},

		{"secret", func(c *Config) { c.Secret = hexSecret }, ""},
		{"short secret", func(c *Config) { c.Secret = hexSecret[:62] },
			`secret is shorter than 32 bytes: give what "openssl rand -hex 32" prints`},
		{"no secret at all", func(c *Config) { c.Secret = "a pass phrase that is long enough, is it?" },
			`secret is neither hex nor base64: give what "openssl rand -hex 32" prints`},
		{"no data", func(c *Config) { c.Data = "" },
			"data is not given and this account has no home folder: give the data folder, such as --data /var/lib/patchbay"},

		{"https", func(c *Config) { c.TLS.Cert, c.TLS.Key = "/c", "/k" }, ""},
		{"automatic https", func(c *Config) { c.HTTPS.Names = []string{"board.example.org"} }, ""},
		{"automatic https and MQTT", func(c *Config) {
			c.HTTPS.Names, c.XiaoZhi.MQTTTLS = []string{"board.example.org"}, ":8883"
		}, ""},
		{"a certificate for no name", func(c *Config) { c.HTTPS.Names = []string{"192.0.2.1"} },
			`https.names holds "192.0.2.1": give names such as board.example.org; certificates are for names that others can resolve`},
		{"automatic https and a certificate", func(c *Config) {
			c.HTTPS.Names, c.TLS.Cert, c.TLS.Key = []string{"board.example.org"}, "/c", "/k"
		}, "https.names is given together with tls.cert: give certificates in files, or names to get them for"},
		{"DNS without a command", func(c *Config) {
			c.HTTPS.Names, c.HTTPS.Challenge = []string{"board.example.org"}, "dns-01"
		}, "https.challenge is dns-01 without https.dns_command: give the program that changes the DNS"},
		{"http and https on one port", func(c *Config) {
			c.HTTPS.Names, c.Listen, c.HTTPS.Redirect = []string{"board.example.org"}, ":443", ":443"
		}, "https.redirect is the same as listen: give another port, or leave it empty"},
		{"directory without TLS", func(c *Config) { c.HTTPS.Directory = "http://ca.example.org" },
			`https.directory is "http://ca.example.org": give an https address`},
		{"a name as an address", func(c *Config) { c.HTTPS.Email = "anna" }, `https.email is "anna": give an address such as anna@example.org, or leave it empty`},
		{"binding without a key", func(c *Config) { c.HTTPS.EABKeyID = "k" },
			"https.eab_kid is given without https.eab_key: give both, or neither"},
		{"certificate without key", func(c *Config) { c.TLS.Cert = "/c" },
			"tls.cert is given without tls.key: give both, or neither"},
		{"key without certificate", func(c *Config) { c.TLS.Key = "/k" },
			"tls.key is given without tls.cert: give both, or neither"},

		{"PostgreSQL", func(c *Config) { c.Database.URL = "postgresql://u:p@a:1,b:2/p?x=y" }, ""},
		{"MySQL", func(c *Config) { c.Database.URL = "mysql://u:hunter2@db/p" },
			"database.url is no PostgreSQL address: give postgres://user:password@host/name, or leave it empty for SQLite"},
		{"PostgreSQL's other form", func(c *Config) { c.Database.URL = "host=db password=hunter2" },
			"database.url is no PostgreSQL address: give postgres://user:password@host/name, or leave it empty for SQLite"},
		{"scheme alone", func(c *Config) { c.Database.URL = "postgres://" },
			"database.url is no PostgreSQL address: give postgres://user:password@host/name, or leave it empty for SQLite"},

		{"bus", bus, ""},
		{"several servers", func(c *Config) { bus(c); c.Bus.URL = "nats://a:4222, tls://u:p@b:4222" }, ""},
		{"bus with its own certificate", func(c *Config) {
			bus(c)
			c.Bus.Cert, c.Bus.Key, c.Bus.CA = "/c", "/k",
				"/ca"
		}, ""},
		{"no bus", func(c *Config) { bus(c); c.Bus.URL = "redis://hunter2@a" },
			"bus.url is no list of NATS servers: give nats://host:4222, or several with commas between"},
		{"a server without host", func(c *Config) { bus(c); c.Bus.URL = "nats://a,nats://:4222" },
			"bus.url is no list of NATS servers: give nats://host:4222, or several with commas between"},
		{"comma at the end", func(c *Config) { bus(c); c.Bus.URL = "nats://a," },
			"bus.url is no list of NATS servers: give nats://host:4222, or several with commas between"},
		{"bus with SQLite", func(c *Config) { bus(c); c.Database.URL = "" },
			"bus.url is given without database.url: give the PostgreSQL that the instances share, or take bus.url out"},
		{"bus without secret", func(c *Config) { bus(c); c.Secret = "" },
			"secret is not given although bus.url is: give all instances the same secret"},
		{"certificate for no bus", func(c *Config) { c.Bus.Cert, c.Bus.Key = "/c", "/k" },
			"bus.cert is given without bus.url: give the address of NATS, or take it out"},
		{"authorities for no bus", func(c *Config) { c.Bus.CA = "/ca" },
			"bus.ca is given without bus.url: give the address of NATS, or take it out"},
		{"half of the bus's pair", func(c *Config) { bus(c); c.Bus.Key = "/k" },
			"bus.key is given without bus.cert: give both, or neither"},
		{"name", func(c *Config) { c.Bus.Name = "board-1" }, ""},
		{"name with a dot", func(c *Config) { c.Bus.Name = "a.b" },
			`bus.name is "a.b": give up to 64 letters, digits, dashes and underscores`},

		{"collector", func(c *Config) {
			c.OTLP.URL, c.OTLP.Headers = "https://c.example.org/otlp", "Authorization=Basic%20aGk=, X-Org=7"
		}, ""},
		{"collector without scheme", func(c *Config) { c.OTLP.URL = "localhost:4318" },
			`otlp.url is "localhost:4318": give an address such as http://localhost:4318, or leave it empty`},
		{"headers without a name", func(c *Config) { c.OTLP.URL, c.OTLP.Headers = "http://c:4318", "hunter2" },
			"otlp.headers is no list of headers: give name=value, separated by commas"},
		{"headers with a line break", func(c *Config) { c.OTLP.URL, c.OTLP.Headers = "http://c:4318", "A=hunter2%0aB" },
			"otlp.headers is no list of headers: give name=value, separated by commas"},
		{"headers for no collector", func(c *Config) { c.OTLP.Headers = "Authorization=hunter2" },
			"otlp.headers is given without otlp.url: give the address of the collector, or take it out"},
		{"masked headers", func(c *Config) { c.OTLP.URL, c.OTLP.Headers = "http://c:4318", Masked },
			"otlp.headers is the mask that stands for a secret that is not shown: give the secret itself"},

		{"too many connections", func(c *Config) { c.Database.MaxConns = 1001 },
			"database.max_conns is 1001: give a whole number such as 10, from 2 to 1000"},
		{"no connections", func(c *Config) { c.Database.MaxConns = 0 },
			"database.max_conns is 0: give a whole number such as 10, from 2 to 1000"},
		{"small body", func(c *Config) { c.Limits.Body = 1023 },
			"limits.body is 1023B: give a size such as 512KiB or 8MiB, from 1KiB to 64MiB"},
		{"pictures smaller than words", func(c *Config) { c.Limits.BodyImages = 512 * KiB },
			"limits.body_images is smaller than limits.body, which is 1MiB: give at least that"},
		{"long history", func(c *Config) { c.History.Keep = 3651 * 24 * time.Hour },
			"history.keep is 3651d: give a duration such as 7s, 10m or 30d, from 1h to 3650d"},
		{"negative", func(c *Config) { c.Turn.Late = -time.Second },
			"turn.late is -1s: give a duration such as 7s, 10m or 30d, from 100ms to 1d"},
		{"zero", func(c *Config) { c.History.Turns = 0 },
			"history.turns is 0: give a whole number such as 10, from 1 to 1000"},
		{"choice in other letters", func(c *Config) { c.Lang = "ZH" }, `lang is "ZH": give ` + joinOr(languages())},
		{"style", func(c *Config) { c.Lingzhu.ErrorStyle = "json" }, `lingzhu.error_style is "json": give sse or http`},

		{"rare heartbeat", func(c *Config) { c.Turn.Heartbeat = c.Turn.FirstPiece },
			"turn.heartbeat is 55s: give less than turn.first_piece (55s) and turn.idle (1m)"},
		{"heartbeat and idle", func(c *Config) { c.Turn.Idle = 5 * time.Second },
			"turn.heartbeat is 7s: give less than turn.first_piece (55s) and turn.idle (5s)"},
		{"late waiting text", func(c *Config) { c.Lingzhu.WaitingText, c.Lingzhu.WaitingAfter = "…", time.Minute },
			"lingzhu.waiting_after is 1m: give less than turn.first_piece (55s), or lingzhu.waiting_text is never shown"},
		{"late without text", func(c *Config) { c.Lingzhu.WaitingAfter = time.Minute }, ""},

		{"push nowhere", func(c *Config) { c.Lingzhu.PushURL = "" }, ""},
		{"push under a path", func(c *Config) { c.Lingzhu.PushURL = "http://127.0.0.1:9/rcs" }, ""},
		{"push without scheme", func(c *Config) { c.Lingzhu.PushURL = "rcs.rokid.com" },
			`lingzhu.push_url is "rcs.rokid.com": give an address such as https://rcs.rokid.com, or leave it empty`},

		{"boards", func(c *Config) {
			c.TLS.Cert, c.TLS.Key = "/c", "/k"
			c.XiaoZhi.Transport, c.XiaoZhi.MQTT, c.XiaoZhi.MQTTTLS, c.XiaoZhi.Audio, c.XiaoZhi.AudioHost = "mqtt",
				":1883", ":8883", ":8884", "192.0.2.1"
		}, ""},
		{"boards behind a broker", func(c *Config) {
			c.XiaoZhi.Transport, c.XiaoZhi.Join, c.XiaoZhi.AudioHost = "mqtt", "wss://mqtt.example.org/mqtt",
				"board.example.org"
		}, ""},
		{"boards without an MQTT server", func(c *Config) { c.XiaoZhi.Transport = "mqtt" },
			"xiaozhi.transport is mqtt, and boards have no MQTT server: give xiaozhi.mqtt and xiaozhi.audio, such as :1883 and :8884"},
		{"port alone for boards", func(c *Config) { c.XiaoZhi.MQTT = "1883" },
			`xiaozhi.mqtt is "1883": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"sound at a name of a port", func(c *Config) { c.XiaoZhi.Audio = ":sound" },
			`xiaozhi.audio is ":sound": give address and port such as 127.0.0.1:3000, or :3000 for every address`},
		{"boards with TLS and no certificate", func(c *Config) { c.XiaoZhi.MQTTTLS = ":8883" },
			"xiaozhi.mqtt_tls is given without tls.cert, https.names or relay.servers: give a certificate, or take it out"},
		{"sound over IPv6", func(c *Config) { c.XiaoZhi.AudioHost = "2001:db8::1" },
			`xiaozhi.audio_host is "2001:db8::1": give an IPv4 address, as boards know no other, or a name`},
		{"broker without scheme", func(c *Config) { c.XiaoZhi.Join = "mqtt.example.org:1883" },
			"xiaozhi.join is no MQTT broker: give mqtt://host or mqtts://host, and the user in xiaozhi.join_user"},
		{"broker with a user", func(c *Config) { c.XiaoZhi.Join = "mqtt://u:hunter2@mqtt.example.org" },
			"xiaozhi.join is no MQTT broker: give mqtt://host or mqtts://host, and the user in xiaozhi.join_user"},
		{"pages as boards", func(c *Config) { c.XiaoZhi.Origins = []string{"https://a.example/talk"} },
			`xiaozhi.origins is "https://a.example/talk": give origins such as https://talk.example.org, without a path, or * for any page`},
		{"clocks of boards", func(c *Config) { c.XiaoZhi.Zone = "Beijing" },
			`xiaozhi.time_zone is "Beijing": give a time zone such as Asia/Shanghai or Europe/Berlin, or leave it empty`},

		{"hosts", func(c *Config) {
			c.Fetch.AllowHosts = []string{"localhost", "*.Example.org", "a_b.example-1.org", "1.example.org",
				"10.0.0.1", "::1"}
		}, ""},
		{"longest host", func(c *Config) { c.Fetch.AllowHosts = []string{strings.Repeat("abcd.", 50) + "abc"} }, ""},
		{"misspelt address for a host", func(c *Config) { c.Fetch.AllowHosts = []string{"10.0.0.256"} },
			`fetch.allow_hosts holds "10.0.0.256": give hosts such as media.example.org, *.example.org or 192.168.1.7`},
		{"too long a host", func(c *Config) { c.Fetch.AllowHosts = []string{strings.Repeat("abcd.", 50) + "abcd"} },
			`fetch.allow_hosts holds "` + strings.Repeat("abcd.", 12) +
				`"…: give hosts such as media.example.org, *.example.org or 192.168.1.7`},
		{"host with a zone", func(c *Config) { c.Fetch.AllowHosts = []string{"fe80::1%eth0"} },
			`fetch.allow_hosts holds "fe80::1%eth0": give hosts such as media.example.org, *.example.org or 192.168.1.7`},
		{"every host", func(c *Config) { c.Fetch.AllowHosts = []string{"*"} },
			`fetch.allow_hosts holds "*": give hosts such as media.example.org, *.example.org or 192.168.1.7`},
		{"host with port", func(c *Config) { c.Fetch.AllowHosts = []string{"a:80"} },
			`fetch.allow_hosts holds "a:80": give hosts such as media.example.org, *.example.org or 192.168.1.7`},
		{"host with dot at the end", func(c *Config) { c.Fetch.AllowHosts = []string{"a."} },
			`fetch.allow_hosts holds "a.": give hosts such as media.example.org, *.example.org or 192.168.1.7`},
		{"nets", func(c *Config) { c.Fetch.AllowNets = []string{"10.1.2.3/8", "::1", "fd00::/8", "192.168.1.7"} }, ""},
		{"net by name", func(c *Config) { c.Fetch.AllowNets = []string{"localhost"} },
			`fetch.allow_nets holds "localhost": give addresses or ranges such as 192.168.1.7 or 10.0.0.0/8`},
		{"proxy with zone", func(c *Config) { c.Proxies = []string{"fe80::1%eth0"} },
			`proxies holds "fe80::1%eth0": give addresses or ranges such as 192.168.1.7 or 10.0.0.0/8`},
		{"proxy in IPv6 clothes", func(c *Config) { c.Proxies = []string{"::ffff:10.0.0.1"} },
			`proxies holds "::ffff:10.0.0.1": give addresses or ranges such as 192.168.1.7 or 10.0.0.0/8`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fill(defaults())
			c.Data = "/srv/patchbay"
			tt.change(c)
			got := ""
			if err := c.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Error("the problem tells the secret")
			}
		})
	}
}

func TestParsePrefixes(t *testing.T) {
	got, err := ParsePrefixes([]string{"10.1.2.3/8", "127.0.0.1", "::1"})
	if err != nil || len(got) != 3 || got[0].String() != "10.0.0.0/8" || got[1].String() != "127.0.0.1/32" ||
		got[2].String() != "::1/128" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, wrong := range []string{"", "x", "10.0.0.0/33", "::ffff:10.0.0.0/104", "10.0.0.1/", "1.2.3"} {
		if got, err := ParsePrefixes([]string{"::1", wrong}); err == nil || got != nil {
			t.Errorf("%q is accepted as %v", wrong, got)
		}
	}
}

func TestSecretForms(t *testing.T) {
	key := []byte(strings.Repeat("\xfb\xff", 16)) // in characters that differ between the alphabets
	for text, want := range map[string]string{
		hexSecret: "", strings.ToUpper(hexSecret): "",
		base64.StdEncoding.EncodeToString(key): "", base64.RawStdEncoding.EncodeToString(key): "",
		base64.URLEncoding.EncodeToString(key): "", base64.RawURLEncoding.EncodeToString(key): "",
		hexSecret[:62]: "is shorter than 32 bytes",
		base64.StdEncoding.EncodeToString(key[:31]): "is shorter than 32 bytes",
		hexSecret + "!": "is neither hex nor base64", Masked: "is neither hex nor base64",
	} {
		if got := secretProblem(text); got != want {
			t.Errorf("%q %q, want %q", text, got, want)
		}
	}
}

func TestWrongItemsEnd(t *testing.T) {
	c := fill(defaults())
	c.Data = "/srv/patchbay"
	c.Proxies = strings.Split(strings.Repeat("x,", 1000), ",")
	problems, _ := c.Validate().(Problems)
	if len(problems) != maxItems+1 || problems[maxItems].Fault != "holds more that is wrong" {
		t.Errorf("%d problems: %v", len(problems), problems)
	}
}
