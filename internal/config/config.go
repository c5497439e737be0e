// Package config holds the server's settings: one typed tree that is filled from defaults, a YAML
// file, the environment and the command line.
//
// The struct tags below are the only description of a setting. Its environment variable, its flag,
// the commented default file, the manual's table and the checks of ranges and choices are all
// generated from them. The tags are
//
//	key      name in the file; the path is the names joined by dots
//	default  text of the default; empty means the zero value
//	doc      what the setting does, for the person who runs the server
//	min, max smallest and largest value, in the text form of the type
//	oneof    the allowed values, separated by commas; or "languages"
//	secret   "true": never printed, and can be read from a file of its own
//	flag     name of the flag, if it is not that of the path
//	path     "true": a file or folder; "~" and relative paths are resolved
//
// Unknown settings are errors, because a misspelt key that is silently ignored is hard to find.
package config

import (
	"log/slog"
	"strings"
	"time"
)

// Config is every setting of the server. A Config returned by [Load] is valid, has absolute paths,
// and is not modified any more, so that any goroutine may read it.
type Config struct {
	Listen    string   `key:"listen" default:"127.0.0.1:3000" doc:"Address and port that the server listens on; :3000 means all addresses of this machine."`
	PublicURL string   `key:"public_url" doc:"Public URL of this server, such as https://board.example.org; empty means it is not known."`
	LocalName string   `key:"local_name" default:"patchbay" doc:"Name under which this server is found in its local network (mDNS): patchbay means http://patchbay.local with the port of listen. A server that listens on this machine alone is not announced. Empty means never."`
	Data      string   `key:"data" path:"true" doc:"Data folder of the server; empty means patchbay in the platform's data directory (Linux ~/.local/share/patchbay, macOS ~/Library/Application Support/Patchbay, Windows %LocalAppData%\\Patchbay)."`
	Lang      string   `key:"lang" default:"zh" oneof:"languages" doc:"Language for people whose device does not report theirs."`
	Secret    string   `key:"secret" secret:"true" doc:"Key of at least 32 bytes, as hex or base64, that encrypts the stored credentials for other services; empty means that a key is generated and stored in the data folder. All instances need the same key."`
	Proxies   []string `key:"proxies" doc:"Addresses or ranges of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto headers are trusted, such as 127.0.0.1 or 10.0.0.0/8; empty means none."`

	OIDC     OIDC     `key:"oidc" doc:"Signing in at an OpenID provider such as Authelia."`
	Log      Log      `key:"log" doc:"Log output on standard error."`
	Database Database `key:"database" doc:"Storage of accounts, bots, devices and traces."`
	Bus      Bus      `key:"bus" doc:"Connection between several instances. A single instance needs no settings here."`
	TLS      TLS      `key:"tls" doc:"Serve HTTPS directly, with a certificate in files, which are read again when they change. Leave both empty behind a reverse proxy."`
	HTTPS    HTTPS    `key:"https" doc:"Serve HTTPS directly, with certificates that the server gets and renews by itself (ACME)."`
	Relay    Relay    `key:"relay" doc:"Being reached from everywhere through a relay, which cannot read what passes."`
	Limits   Limits   `key:"limits" doc:"Limits that protect the server from overload."`
	Turn     Turn     `key:"turn" doc:"Timeouts of questions and answers."`
	Lingzhu  Lingzhu  `key:"lingzhu" doc:"Rokid glasses through the Lingzhu platform."`
	XiaoZhi  XiaoZhi  `key:"xiaozhi" doc:"XiaoZhi voice boards."`
	Speech   Speech   `key:"speech" doc:"Speech engine with which voice boards understand and speak."`
	Nodes    Nodes    `key:"nodes" doc:"OpenClaw nodes and operators that connect to this server."`
	Fetch    Fetch    `key:"fetch" doc:"Downloads of pictures from addresses given by clients. Loopback and private addresses are refused unless allow_nets contains them."`
	Trace    Trace    `key:"trace" doc:"Records of turns and calls: who, when, duration and outcome."`
	History  History  `key:"history" doc:"Earlier turns of a conversation that bots receive."`
	Media    Media    `key:"media" doc:"Pictures that were received with a question."`
	MCP      MCP      `key:"mcp" doc:"MCP endpoints for programs that call tools, such as Claude, Cursor and agents."`
	Learn    Learn    `key:"learn" doc:"Knowledge points and their reviews."`
	Audit    Audit    `key:"audit" doc:"Audit trail of tool calls: who called what, when, and the outcome."`
	Metrics  Metrics  `key:"metrics" doc:"Metrics for Prometheus."`
	OTLP     OTLP     `key:"otlp" doc:"Traces for OpenTelemetry."`
	Upgrade  Upgrade  `key:"upgrade" doc:"Newer versions of the program."`
}

// Upgrade configures what happens around a change of the program's version.
type Upgrade struct {
	Feed    string `key:"feed" doc:"Address of the description of the newest release (latest.json) that the command upgrade check reads; empty means none. Nothing else reads it, and nothing is downloaded or installed by itself."`
	Backups int    `key:"backups" default:"3" min:"0" max:"100" doc:"How many backups are kept in before-upgrade in the data folder: one is made before a newer version changes the SQLite database. 0 means that none is made."`
}

// OIDC configures the OpenID provider at which people may sign in.
type OIDC struct {
	Issuer string   `key:"issuer" doc:"Address of the OpenID provider exactly as it calls itself, such as https://auth.example.org; empty means that people sign in with passwords only."`
	ID     string   `key:"client_id" doc:"Id of this server at the provider."`
	Secret string   `key:"client_secret" secret:"true" doc:"Secret of this server at the provider; empty for a public client."`
	Name   string   `key:"name" doc:"What the button on the sign-in page calls the provider; empty means its host."`
	Scopes []string `key:"scopes" default:"openid,profile,email" doc:"Scopes that are asked for; add groups if the provider has it and allow names groups."`
	Allow  []string `key:"allow" doc:"Who may sign in: verified addresses such as anna@example.org, domains such as @example.org, groups such as group:family; * means everybody that the provider knows. Empty means everybody whose account here is linked."`
	Create bool     `key:"create" default:"false" doc:"Open an account, as a member, for everybody in allow who has none."`
	Only   bool     `key:"only" default:"false" doc:"Refuse passwords on the sign-in page. Link the accounts first; whoever runs the server takes this setting out again if the provider is lost."`
}

// Log configures logging.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug,info,warn,error" doc:"Minimum level of messages that are logged."`
	Format string `key:"format" default:"text" oneof:"text,json" doc:"Format of log lines."`
}

// Database configures where data is stored.
type Database struct {
	URL      string `key:"url" secret:"true" doc:"PostgreSQL database, as postgres://user:password@host/name; empty means SQLite in the data folder."`
	MaxConns int    `key:"max_conns" default:"12" min:"2" max:"1000" doc:"Maximum number of connections that this instance opens to PostgreSQL; two of them are reserved for long operations."`
}

// Bus configures how instances reach one another.
type Bus struct {
	URL  string `key:"url" secret:"true" doc:"NATS servers, comma separated, such as nats://host:4222; empty means that there is only one instance."`
	Name string `key:"name" doc:"Name of this instance, to which a random suffix is added; empty means a generated name."`
	Cert string `key:"cert" path:"true" doc:"File with the client certificate of this instance for NATS."`
	Key  string `key:"key" path:"true" doc:"File with the private key of that certificate."`
	CA   string `key:"ca" path:"true" doc:"File with the CA certificates for verifying NATS servers; empty means the system's."`
}

// TLS names the files for serving https. Either both are set or neither.
type TLS struct {
	Cert string `key:"cert" path:"true" doc:"File with the certificate chain of the server."`
	Key  string `key:"key" path:"true" doc:"File with the private key of that certificate."`
}

// HTTPS configures certificates that the server gets by itself.
type HTTPS struct {
	Names      []string      `key:"names" flag:"--https" doc:"Names under which this server is reached from the internet, such as board.example.org: it gets a certificate for each and renews it, listens on :443 unless listen is given, and public_url is the first one unless given. Whoever sets this agrees to the terms of service of the certificate authority. Empty means no automatic certificates."`
	Email      string        `key:"email" doc:"Address that the certificate authority may write to; it may be empty."`
	Directory  string        `key:"directory" default:"https://acme-v02.api.letsencrypt.org/directory" doc:"Address of the ACME directory of the certificate authority. For trials use https://acme-staging-v02.api.letsencrypt.org/directory, whose certificates nobody trusts."`
	CA         string        `key:"ca" path:"true" doc:"File with further CA certificates for connections to the certificate authority, such as one in the own network."`
	Challenge  string        `key:"challenge" default:"auto" oneof:"auto,http-01,tls-alpn-01,dns-01" doc:"How the names are proven: http-01 by port 80, tls-alpn-01 by port 443, dns-01 by dns_command. auto is dns-01 if there is a dns_command, else http-01 and tls-alpn-01 in turns."`
	DNSCommand []string      `key:"dns_command" doc:"Program that changes the DNS for dns-01, and its arguments. It gets add or remove, the name of the TXT record and its value as further arguments, and has 2 minutes. It runs without a shell."`
	DNSWait    time.Duration `key:"dns_wait" default:"30s" min:"0s" max:"1h" doc:"How long a new TXT record takes until all name servers have it."`
	Redirect   string        `key:"redirect" default:":80" doc:"Address and port that answers http-01 and leads browsers from http to https. Boards, /healthz and /readyz are answered there as well, as boards follow no redirect. Empty means none."`
	HSTS       time.Duration `key:"hsts" default:"365d" min:"0s" max:"730d" doc:"How long browsers that saw this server by https use no http any more; 0 means that they are not told. It is also used with tls or behind a proxy if public_url begins with https."`
	Chain      string        `key:"chain" default:"ISRG Root X1" doc:"Common name of the root that certificates should lead to, if the authority offers several. The default is one that XiaoZhi boards know; empty means the authority's choice."`
	Profile    string        `key:"profile" doc:"Profile of the certificates, such as shortlived at Let's Encrypt, whose certificates last 6 days; empty means the authority's default."`
	EABKeyID   string        `key:"eab_kid" doc:"Id of the key for external account binding, for certificate authorities that require it."`
	EABKey     string        `key:"eab_key" secret:"true" doc:"That key, in base64url."`
}

// Relay configures the relays through which the server is reached.
type Relay struct {
	Servers []string `key:"servers" doc:"Relays to connect to, such as relay.example.org; --relay is short for it. The server gets a certificate for its name there by itself (see https), unless tls.cert is given. Empty means none."`
	Key     string   `key:"key" secret:"true" doc:"Join code for the relay, as printed by patchbay relay key add; for several relays, codes separated by commas. It is needed for the first connection only."`
}

// Limits bounds what clients can request.
type Limits struct {
	AuthFailures int  `key:"auth_failures" default:"10" min:"1" max:"100000" doc:"Failed attempts with keys or passwords per minute and address before further attempts are refused."`
	Body         Size `key:"body" default:"1MiB" min:"1KiB" max:"64MiB" doc:"Maximum size of a request body without pictures."`
	BodyImages   Size `key:"body_images" default:"8MiB" min:"1KiB" max:"256MiB" doc:"Maximum size of a request body that may contain pictures."`
	Connections  int  `key:"connections" default:"1000" min:"0" max:"1000000" doc:"Maximum number of simultaneous connections of one address, except for this machine and the proxies; an IPv6 /64 counts as one address. 0 means no limit."`
	Streams      int  `key:"streams" default:"500" min:"0" max:"1000000" doc:"Maximum number of simultaneous streams and open requests of one person's keys, counted on each instance. 0 means no limit."`
	StreamsOfKey int  `key:"streams_of_key" default:"200" min:"0" max:"1000000" doc:"Maximum number of simultaneous streams and open requests of one key, counted on each instance. 0 means no limit."`
	Turns        int  `key:"turns" default:"2000" min:"1" max:"1000000" doc:"Maximum number of turns that this instance answers at the same time, over all bots."`
	Calls        int  `key:"calls" default:"2000" min:"1" max:"1000000" doc:"Maximum number of tool calls that this instance runs at the same time."`
	CallRate     int  `key:"call_rate" default:"3000" min:"0" max:"10000000" doc:"Maximum number of tool calls per minute with one key that has no rate of its own, counted on each instance; 0 means no limit."`
}

// Turn has the timeouts of a turn.
type Turn struct {
	FirstPiece time.Duration `key:"first_piece" default:"55s" min:"100ms" max:"10m" doc:"Maximum wait for the first piece of an answer."`
	Idle       time.Duration `key:"idle" default:"60s" min:"100ms" max:"1h" doc:"Maximum pause between two pieces of an answer."`
	Late       time.Duration `key:"late" default:"10m" min:"100ms" max:"1d" doc:"How long a bot may continue after the person stopped waiting, so that the answer can be delivered later."`
	Heartbeat  time.Duration `key:"heartbeat" default:"7s" min:"100ms" max:"1m" doc:"Interval of heartbeats on a waiting connection."`
	Grace      time.Duration `key:"grace" default:"45s" min:"100ms" max:"10m" doc:"How long a bot may be disconnected before it counts as offline."`
}

// Lingzhu configures glasses on the Lingzhu platform.
type Lingzhu struct {
	ErrorStyle    string        `key:"error_style" default:"sse" oneof:"sse,http" doc:"How a refused request is answered: sse sends status 200 with a sentence that the glasses show, http sends an error status code."`
	QuietStart    bool          `key:"quiet_start" default:"false" doc:"Send nothing before the first piece of an answer, for platforms that otherwise ignore a navigation command."`
	WaitingText   string        `key:"waiting_text" doc:"Sentence to show when an answer takes long; empty means none."`
	WaitingAfter  time.Duration `key:"waiting_after" default:"8s" min:"100ms" max:"10m" doc:"Delay before that sentence is shown."`
	Binding       bool          `key:"binding" default:"true" doc:"Let glasses bind to a bot by photographing its QR code."`
	BindingHosts  []string      `key:"binding_hosts" default:"*.rokidcdn.com" doc:"Hosts from which photos of unbound, and therefore untrusted, people are fetched; *.example.org means all subdomains, an empty list any public host."`
	PushURL       string        `key:"push_url" default:"https://rcs.rokid.com" doc:"Address of the platform's service that shows messages on glasses; empty disables push messages."`
	ImagesPerHour int           `key:"images_per_hour" default:"60" min:"1" max:"100000" doc:"Maximum number of pictures that one wearer may send per hour."`
}

// Speech configures a speech engine.
type Speech struct {
	URL         string `key:"url" doc:"Address of the engine, such as https://api.openai.com/v1; funasr+wss://, vosk+ws:// and sherpa+ws:// are for recognisers over a WebSocket. Empty means that there is no speech engine."`
	Key         string `key:"key" secret:"true" doc:"API key; engines on this machine need none."`
	ListenModel string `key:"listen_model" doc:"Model that understands speech; empty means gpt-4o-mini-transcribe."`
	SpeakModel  string `key:"speak_model" doc:"Model that speaks; empty means gpt-4o-mini-tts."`
	Voice       string `key:"voice" doc:"Voice that speaks; empty means alloy."`
	Format      string `key:"format" default:"opus" oneof:"opus,wav,pcm" doc:"Format in which speech is requested."`
	SpeakURL    string `key:"speak_url" doc:"Address of the engine that speaks, if it differs from url."`
	SpeakKey    string `key:"speak_key" secret:"true" doc:"API key for speak_url."`

	ListenCommand []string `key:"listen_command" doc:"Program on this machine that understands speech, and its arguments: it gets a WAV file as {file} or on its standard input, and writes the text; {lang} is the language. It is used if url is empty or fails."`
	SpeakCommand  []string `key:"speak_command" doc:"Program on this machine that speaks, and its arguments: it gets the text as {text} or on its standard input, and writes sound; {lang}, {voice} and {speed} are replaced as well. It is used if the engine that speaks is missing or fails."`

	PersonMinutes    int    `key:"person_minutes" default:"0" min:"0" max:"1000000" doc:"Minutes of speech that all boards of a person may have understood in a day; 0 means any number. When a limit of the day is reached, the board says so and answers again on the next day, which begins at midnight in xiaozhi.time_zone."`
	PersonCharacters int    `key:"person_characters" default:"0" min:"0" max:"1000000000" doc:"Characters that all boards of a person may have spoken in a day; 0 means any number."`
	DeviceMinutes    int    `key:"device_minutes" default:"0" min:"0" max:"1000000" doc:"Minutes of speech that a board may have understood in a day; 0 means any number."`
	DeviceCharacters int    `key:"device_characters" default:"0" min:"0" max:"1000000000" doc:"Characters that a board may have spoken in a day; 0 means any number."`
	Currency         string `key:"currency" doc:"Currency of the prices of speech engines, such as USD; it is shown after sums."`
}

// XiaoZhi configures voice boards.
type XiaoZhi struct {
	Transport string        `key:"transport" default:"websocket" oneof:"websocket,mqtt" doc:"Transport of boards whose owner has not chosen one. With websocket, they can be reached only while somebody talks to them; mqtt requires mqtt and audio below."`
	Framing   int           `key:"framing" default:"1" min:"1" max:"3" doc:"Format of audio frames on a WebSocket: 1 without a header, 2 with timestamps, 3 with the length."`
	MQTT      string        `key:"mqtt" doc:"Address and port for MQTT connections of boards, such as :1883; empty means none."`
	MQTTTLS   string        `key:"mqtt_tls" doc:"Address and port for MQTT connections with TLS. The certificate is that of tls or https and must be signed by a public authority; boards use TLS only on port 8883. Empty means none."`
	Broker    string        `key:"broker" doc:"Address of the MQTT server that is sent to boards, as host or host:port, if it differs from the address at which they found this server."`
	Keepalive time.Duration `key:"keepalive" default:"240s" min:"10s" max:"1h" doc:"Keepalive interval of boards on MQTT."`
	Audio     string        `key:"audio" doc:"Address and UDP port for the audio of boards on MQTT, such as :8884; empty means that they have no audio."`
	AudioHost string        `key:"audio_host" doc:"Host for audio that is sent to boards: an IPv4 address, or a name that has one; empty means the host of the MQTT server."`
	AudioPort int           `key:"audio_port" default:"0" min:"0" max:"65535" doc:"Port for audio that is sent to boards, if a router maps another one; 0 means the port of audio."`
	Join      string        `key:"join" doc:"External MQTT broker to which boards connect instead of this server, such as mqtts://mqtt.example.org; it must subscribe boards itself. Set broker too if boards reach it by another name."`
	JoinUser  string        `key:"join_user" doc:"User name of this server at that broker."`
	JoinPass  string        `key:"join_password" secret:"true" doc:"Password of this server at that broker."`
	JoinKey   string        `key:"join_secret" secret:"true" doc:"Secret that the broker sends to /xiaozhi/mqtt/auth and /xiaozhi/mqtt/acl to check who may connect; empty disables these checks."`
	JoinTells bool          `key:"join_events" default:"false" doc:"The broker publishes connects and disconnects of clients below $SYS/brokers, as EMQX does."`
	Boards    int           `key:"boards" default:"20000" min:"1" max:"1000000" doc:"Maximum number of MQTT connections of boards."`
	Sockets   int           `key:"sockets" default:"5000" min:"1" max:"1000000" doc:"Maximum number of WebSocket connections of boards."`
	Firmware  string        `key:"firmware" path:"true" doc:"Folder with firmware for boards, in files named family-version.bin, such as bread-compact-wifi-2.4.3.bin; empty means none."`
	Zone      string        `key:"time_zone" doc:"Time zone of the boards' clocks, such as Asia/Shanghai; empty means the server's."`
	Origins   []string      `key:"origins" default:"*" doc:"Origins of the web pages that may act as boards, such as https://talk.example.org; * means any, null means files. Pages need what boards need, and never get cookies. The pages of this server always may."`
	Silence   time.Duration `key:"silence" default:"60s" min:"1s" max:"1h" doc:"Silence after which a conversation ends."`
	Linger    time.Duration `key:"linger" default:"10m" min:"1s" max:"1d" doc:"Silence after which a conversation ends on boards that are operated by a button."`
	Voice     string        `key:"voice" default:"answer" oneof:"answer,repeat,off" doc:"Reply to people who talk to a board: answer lets the board's bot answer, if there is a speech engine; repeat plays back what was heard, to test audio in both directions; off plays nothing."`
	WakeWords []string      `key:"wake_words" default:"你好小智,嘿你好呀,小智小智,你好小志,你好小鑫,你好小新,小美同学,小龙小龙,喵喵同学,小冰小冰,嗨小智,Hi ESP,Jarvis,Sophia,Hey Willow" doc:"Wake words that boards and pages send, compared without punctuation and case. Any other text in their place was typed and is treated as a question."`
}

// Nodes configures nodes and operators of OpenClaw.
type Nodes struct {
	Allow        []string `key:"allow" doc:"Commands that may be called on nodes in addition to the defaults of their platform, by exact name: dangerous ones, such as camera.snap, and custom ones. The node must also have declared the command, and its owner must have approved it."`
	Deny         []string `key:"deny" doc:"Commands that are never called on nodes, even if another setting allows them."`
	ApproveLocal bool     `key:"approve_local" default:"true" doc:"Pair programs on this machine automatically if they have a valid key. The commands of a node must still be approved."`
	Connections  int      `key:"connections" default:"10000" min:"1" max:"1000000" doc:"Maximum number of connections of nodes and operators."`
}

// Fetch bounds downloads of addresses that came from outside.
type Fetch struct {
	AllowHosts []string      `key:"allow_hosts" doc:"Hosts from which pictures may be fetched: names, addresses, or *.example.org for all subdomains; empty means any."`
	AllowNets  []string      `key:"allow_nets" doc:"Private addresses or ranges from which downloads are allowed, such as 192.168.1.0/24."`
	Private    []string      `key:"private_hosts" doc:"Hosts with private or loopback addresses that members may use for models, tool servers, services, gateways and webhooks, such as ollama.lan or 192.168.1.7; *.lan means all subdomains. Pictures are not fetched from them."`
	MaxBytes   Size          `key:"max_bytes" default:"5MiB" min:"1KiB" max:"20MiB" doc:"Maximum size of a download."`
	Timeout    time.Duration `key:"timeout" default:"15s" min:"100ms" max:"5m" doc:"Maximum duration of a download."`
}

// Trace configures the records of turns and calls.
type Trace struct {
	Keep    time.Duration `key:"keep" default:"7d" min:"1h" max:"3650d" doc:"How long records are kept."`
	Content bool          `key:"content" default:"false" doc:"Also record the content of turns, unless the owner of a bot has chosen otherwise for it."`
}

// History configures how much of a conversation is kept for bots.
type History struct {
	Keep  time.Duration `key:"keep" default:"30d" min:"1h" max:"3650d" doc:"How long a conversation is kept after its last turn."`
	Turns int           `key:"turns" default:"20" min:"1" max:"1000" doc:"Maximum number of earlier turns that a bot receives."`
}

// Media configures how long images are kept.
type Media struct {
	Keep time.Duration `key:"keep" default:"1h" min:"1m" max:"30d" doc:"How long a picture is kept and available at its address."`
}

// MCP configures the endpoints for programs.
type MCP struct {
	Hosts         []string      `key:"hosts" doc:"Host names under which programs may reach this server, in addition to IP addresses, names of the local network and the host of public_url."`
	Origins       []string      `key:"origins" doc:"Origins of other websites that may call tools, such as https://app.example.org."`
	Sessions      int           `key:"sessions" default:"10000" min:"1" max:"1000000" doc:"Maximum number of sessions in memory."`
	SessionsOfKey int           `key:"sessions_of_key" default:"2500" min:"1" max:"1000000" doc:"Maximum number of sessions of one key in memory."`
	Idle          time.Duration `key:"idle" default:"30m" min:"1m" max:"30d" doc:"How long an idle session stays in memory."`
	Registry      string        `key:"registry" default:"https://registry.modelcontextprotocol.io" doc:"Address of the registry in which tool servers are searched for: the official one, or another with the same API; empty means none."`
}

// Learn has the defaults for people without settings of their own, and the embeddings for finding
// points.
type Learn struct {
	TimeZone        string   `key:"time_zone" doc:"Time zone of people who have not set theirs, such as Asia/Shanghai; empty means the server's."`
	ImportSize      Size     `key:"import_size" default:"1GiB" min:"1MiB" max:"2GiB" doc:"Maximum size of a file of knowledge points that is imported over HTTP; of files that are no packages of Anki, 256 MiB at most."`
	MediaSize       Size     `key:"media_size" default:"4GiB" min:"1MiB" max:"1024GiB" doc:"Maximum size of the pictures and sounds of one person together."`
	EmbeddingsURL   string   `key:"embeddings_url" doc:"Base URL of an OpenAI-compatible embeddings API, such as https://api.openai.com/v1, so that points are also found by meaning; empty means that they are found by words only."`
	EmbeddingsKey   string   `key:"embeddings_key" secret:"true" doc:"Key of that API."`
	EmbeddingsModel string   `key:"embeddings_model" default:"text-embedding-3-small" doc:"Embedding model."`
	EmbeddingsDims  int      `key:"embeddings_dims" default:"256" min:"0" max:"4096" doc:"Number of dimensions of the vectors; 0 means the default of the model."`
	AnkiListen      string   `key:"anki_listen" doc:"Separate address and port for programs for Anki (AnkiConnect), which expect 127.0.0.1:8765; empty means that they are served at /anki only."`
	AnkiKey         string   `key:"anki_key" secret:"true" doc:"Key of scope learn that programs for Anki use which cannot send one. It counts at learn.anki_listen only, which must be a loopback address: every program of this machine can use it."`
	AnkiOrigins     []string `key:"anki_origins" default:"http://localhost,app://obsidian.md" doc:"Origins of web pages that may use a key of Learn as programs for Anki do, such as https://app.example.org; http://localhost also stands for browser extensions, * for all."`
}

// Audit configures the records of calls.
type Audit struct {
	Keep time.Duration `key:"keep" default:"90d" min:"1h" max:"3650d" doc:"How long the record of a call is kept."`
	Args bool          `key:"args" default:"false" doc:"Also keep the arguments of all calls. A key can enable this for its own calls only."`
}

// Metrics configures who may read the metrics.
type Metrics struct {
	Listen string `key:"listen" doc:"Separate address and port for /metrics; empty means that it is served together with everything else."`
	Open   bool   `key:"open" default:"false" doc:"Let anyone read /metrics; otherwise only loopback and clients with a key."`
}

// OTLP configures where traces of OpenTelemetry are sent.
type OTLP struct {
	URL     string `key:"url" doc:"Address of a collector for OTLP over HTTP, such as http://localhost:4318, which gets traces of turns, calls and requests to other servers; empty means that there are none. They have no questions, answers, arguments or results."`
	Headers string `key:"headers" secret:"true" doc:"Headers for the collector, as name=value separated by commas, such as Authorization=Bearer KEY."`
	Sample  int    `key:"sample" default:"100" min:"0" max:"100" doc:"Percentage of traces that are sent."`
}

// ServesTLS reports whether the server speaks https itself.
func (c *Config) ServesTLS() bool { return c.TLS.Cert != "" || len(c.HTTPS.Names) > 0 }

// String returns the configuration as YAML with masked secrets, so that a Config that is printed by
// accident reveals none.
func (c Config) String() string {
	var b strings.Builder
	_ = c.WriteEffective(&b) // a strings.Builder returns no errors
	return b.String()
}

// GoString returns String, so that %#v does not print secrets either.
func (c Config) GoString() string { return c.String() }

// LogValue returns the configuration for a log line, with masked secrets.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
