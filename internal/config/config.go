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
	Listen    string   `key:"listen" default:"127.0.0.1:3000" doc:"Address and port that the server listens on; :3000 means every address of this machine."`
	PublicURL string   `key:"public_url" doc:"Address under which the outside reaches this server, such as https://board.example.org; empty means it is not known."`
	Data      string   `key:"data" path:"true" doc:"Folder that holds everything the server keeps; empty means patchbay in the platform's data home (Linux ~/.local/share/patchbay, macOS ~/Library/Application Support/Patchbay, Windows %LocalAppData%\\Patchbay)."`
	Lang      string   `key:"lang" default:"zh" oneof:"languages" doc:"Language for people whose device does not tell theirs."`
	Secret    string   `key:"secret" secret:"true" doc:"Key of at least 32 bytes, as hex or base64, that seals the credentials kept for other services; empty means one is made and kept in the data folder. Several instances need the same one."`
	Proxies   []string `key:"proxies" doc:"Addresses or ranges of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, such as 127.0.0.1 or 10.0.0.0/8; empty means none."`

	Log      Log      `key:"log" doc:"What the server writes to standard error about its work."`
	Database Database `key:"database" doc:"Where accounts, bots, devices and traces are kept."`
	Bus      Bus      `key:"bus" doc:"How several instances reach one another. One instance alone needs nothing here."`
	TLS      TLS      `key:"tls" doc:"Serve https directly. Leave both empty behind a reverse proxy."`
	Limits   Limits   `key:"limits" doc:"Bounds that protect the server from too much at once."`
	Turn     Turn     `key:"turn" doc:"How long a question and its answer may take."`
	Lingzhu  Lingzhu  `key:"lingzhu" doc:"Rokid glasses through the Lingzhu platform."`
	XiaoZhi  XiaoZhi  `key:"xiaozhi" doc:"XiaoZhi voice boards."`
	Nodes    Nodes    `key:"nodes" doc:"OpenClaw's nodes and operators that connect to this server."`
	Fetch    Fetch    `key:"fetch" doc:"Downloads of pictures whose addresses came from outside. Loopback and private addresses are refused unless allow_nets has them."`
	Trace    Trace    `key:"trace" doc:"Records of turns and calls: who, when, how long, how it ended."`
	History  History  `key:"history" doc:"What bots are told about earlier turns of a conversation."`
	Media    Media    `key:"media" doc:"Pictures that came in with a question."`
	MCP      MCP      `key:"mcp" doc:"MCP endpoints for programs that call tools, such as Claude, Cursor and agents."`
	Learn    Learn    `key:"learn" doc:"Knowledge points and their reviews."`
	Audit    Audit    `key:"audit" doc:"The trail of calls of tools: who called what, when, and how it ended."`
	Metrics  Metrics  `key:"metrics" doc:"Numbers for Prometheus."`
}

// Log configures logging.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug,info,warn,error" doc:"Least important messages that are logged."`
	Format string `key:"format" default:"text" oneof:"text,json" doc:"Form of a log line."`
}

// Database configures where data is stored.
type Database struct {
	URL      string `key:"url" secret:"true" doc:"PostgreSQL to use, as postgres://user:password@host/name; empty means SQLite in the data folder."`
	MaxConns int    `key:"max_conns" default:"12" min:"2" max:"1000" doc:"Most connections that this instance opens to PostgreSQL, of which two are for what takes long."`
}

// Bus configures how instances reach one another.
type Bus struct {
	URL  string `key:"url" secret:"true" doc:"NATS servers, comma separated, such as nats://host:4222; empty means this instance is alone."`
	Name string `key:"name" doc:"Name of this instance, to which a random ending is added; empty means a name made up at start."`
	Cert string `key:"cert" path:"true" doc:"File with the certificate that this instance shows to NATS."`
	Key  string `key:"key" path:"true" doc:"File with the private key of that certificate."`
	CA   string `key:"ca" path:"true" doc:"File with the certificates that NATS servers are checked against; empty means the system's."`
}

// TLS names the files for serving https. Either both are set or neither.
type TLS struct {
	Cert string `key:"cert" path:"true" doc:"File with the certificate chain that is shown to callers."`
	Key  string `key:"key" path:"true" doc:"File with the private key of that certificate."`
}

// Limits bounds what clients can request.
type Limits struct {
	AuthFailures int  `key:"auth_failures" default:"10" min:"1" max:"100000" doc:"Wrong keys or passwords per minute and address before further attempts are refused."`
	Body         Size `key:"body" default:"1MiB" min:"1KiB" max:"64MiB" doc:"Largest request body without pictures."`
	BodyImages   Size `key:"body_images" default:"8MiB" min:"1KiB" max:"256MiB" doc:"Largest request body that may carry pictures."`
	Connections  int  `key:"connections" default:"1000" min:"0" max:"1000000" doc:"Most connections of one address at a time, but for this machine and the proxies; an IPv6 /64 counts as one address. 0 means any number."`
	Streams      int  `key:"streams" default:"500" min:"0" max:"1000000" doc:"Most streams and open requests of one person's keys at a time, counted on each instance. 0 means any number."`
	StreamsOfKey int  `key:"streams_of_key" default:"200" min:"0" max:"1000000" doc:"Most streams and open requests of one key at a time, counted on each instance. 0 means any number."`
	Turns        int  `key:"turns" default:"2000" min:"1" max:"1000000" doc:"Most turns that this instance answers at once, over all bots."`
	Calls        int  `key:"calls" default:"2000" min:"1" max:"1000000" doc:"Most calls of tools that this instance carries out at once."`
	CallRate     int  `key:"call_rate" default:"3000" min:"0" max:"10000000" doc:"Most calls of tools per minute with one key that has no rate of its own, counted on each instance; 0 means any number."`
}

// Turn has the timeouts of a turn.
type Turn struct {
	FirstPiece time.Duration `key:"first_piece" default:"55s" min:"100ms" max:"10m" doc:"Longest wait for the first piece of an answer."`
	Idle       time.Duration `key:"idle" default:"60s" min:"100ms" max:"1h" doc:"Longest silence between two pieces of an answer."`
	Late       time.Duration `key:"late" default:"10m" min:"100ms" max:"1d" doc:"How long a bot may go on after the person stopped waiting, so that the answer can be told later."`
	Heartbeat  time.Duration `key:"heartbeat" default:"7s" min:"100ms" max:"1m" doc:"How often a waiting connection is sent a heartbeat."`
	Grace      time.Duration `key:"grace" default:"45s" min:"100ms" max:"10m" doc:"How long a bot that lost its connection is waited for before it counts as offline."`
}

// Lingzhu configures glasses on the Lingzhu platform.
type Lingzhu struct {
	ErrorStyle    string        `key:"error_style" default:"sse" oneof:"sse,http" doc:"How a refused request is told: sse answers 200 with a sentence that the glasses show, http answers with a status code."`
	QuietStart    bool          `key:"quiet_start" default:"false" doc:"Send nothing before the first piece of an answer, for platforms that would ignore a navigation command after it."`
	WaitingText   string        `key:"waiting_text" doc:"Sentence that is shown when an answer takes long; empty means none."`
	WaitingAfter  time.Duration `key:"waiting_after" default:"8s" min:"100ms" max:"10m" doc:"How long to wait before that sentence is shown."`
	Binding       bool          `key:"binding" default:"true" doc:"Let glasses bind themselves to a bot by looking at its QR code."`
	BindingHosts  []string      `key:"binding_hosts" default:"*.rokidcdn.com" doc:"Hosts from which photos of people who are not bound yet are fetched, as these people may be anybody; *.example.org means every name beneath it, an empty list any public host."`
	PushURL       string        `key:"push_url" default:"https://rcs.rokid.com" doc:"Address of the platform's service that shows messages on glasses; empty means nothing is pushed."`
	ImagesPerHour int           `key:"images_per_hour" default:"60" min:"1" max:"100000" doc:"Most pictures that one wearer may send in an hour."`
}

// XiaoZhi configures voice boards.
type XiaoZhi struct {
	Transport string        `key:"transport" default:"websocket" oneof:"websocket,mqtt" doc:"How boards connect whose owner has not chosen. On websocket they can be reached only while somebody talks to them; mqtt needs mqtt and audio below."`
	Framing   int           `key:"framing" default:"1" min:"1" max:"3" doc:"How sound is put into the frames of a WebSocket: 1 bare, 2 with timestamps, 3 with its length."`
	MQTT      string        `key:"mqtt" doc:"Address and port that boards on MQTT connect to, such as :1883; empty means none."`
	MQTTTLS   string        `key:"mqtt_tls" doc:"The same with TLS, with the certificate of tls, which a public authority must have signed; boards use TLS on port 8883 alone. Empty means none."`
	Broker    string        `key:"broker" doc:"Where boards are told the MQTT server is, as host or host:port, if that is not where they found this one."`
	Keepalive time.Duration `key:"keepalive" default:"240s" min:"10s" max:"1h" doc:"How often boards on MQTT are heard of."`
	Audio     string        `key:"audio" doc:"Address and UDP port for the sound of boards on MQTT, such as :8884; empty means that they cannot talk."`
	AudioHost string        `key:"audio_host" doc:"Where boards are told that is: an IPv4 address, or a name with one; empty means where they found the MQTT server."`
	AudioPort int           `key:"audio_port" default:"0" min:"0" max:"65535" doc:"The port that they are told, if a router has another; 0 means that of audio."`
	Join      string        `key:"join" doc:"MQTT broker of somebody else's to which boards connect instead of this server, such as mqtts://mqtt.example.org; it has to subscribe boards by itself. Set broker too if boards reach it by another name."`
	JoinUser  string        `key:"join_user" doc:"User name of this server at that broker."`
	JoinPass  string        `key:"join_password" secret:"true" doc:"Password of this server at that broker."`
	JoinKey   string        `key:"join_secret" secret:"true" doc:"What that broker shows when it asks at /xiaozhi/mqtt/auth and /xiaozhi/mqtt/acl who may connect; empty means that it cannot ask."`
	JoinTells bool          `key:"join_events" default:"false" doc:"That broker tells who comes and goes below $SYS/brokers, as EMQX does."`
	Boards    int           `key:"boards" default:"20000" min:"1" max:"1000000" doc:"Most connections of boards on MQTT."`
	Sockets   int           `key:"sockets" default:"5000" min:"1" max:"1000000" doc:"Most WebSockets of boards."`
	Firmware  string        `key:"firmware" path:"true" doc:"Folder with firmware that boards are offered, named family-version.bin, such as bread-compact-wifi-2.4.3.bin; empty means none."`
	Zone      string        `key:"time_zone" doc:"Time zone of the boards' clocks, such as Asia/Shanghai; empty means the server's."`
	Silence   time.Duration `key:"silence" default:"60s" min:"1s" max:"1h" doc:"After how much silence a conversation is over."`
	Linger    time.Duration `key:"linger" default:"10m" min:"1s" max:"1d" doc:"The same for boards that wait for their button."`
	Voice     string        `key:"voice" default:"repeat" oneof:"repeat,off" doc:"What is said to people who talk to a board: repeat says back what was heard, to show that sound travels both ways; off says nothing."`
	WakeWords []string      `key:"wake_words" default:"你好小智,嘿你好呀,小智小智,你好小志,你好小鑫,你好小新,小美同学,小龙小龙,喵喵同学,小冰小冰,嗨小智,Hi ESP,Jarvis,Sophia,Hey Willow" doc:"What boards and pages say that they were woken with; punctuation and case do not count. Anything else that comes in its place was typed, and is a question."`
}

// Nodes configures nodes and operators of OpenClaw.
type Nodes struct {
	Allow        []string `key:"allow" doc:"Commands that nodes may be told beyond what machines of their kind may do anyway, by their exact names: dangerous ones, such as camera.snap, and those that a node has invented. A node must have declared a command besides, and its owner have approved it."`
	Deny         []string `key:"deny" doc:"Commands that no node is told, whatever else allows them."`
	ApproveLocal bool     `key:"approve_local" default:"true" doc:"Programs on this machine that show a key are paired at once. What a node can do has to be approved nevertheless."`
	Connections  int      `key:"connections" default:"10000" min:"1" max:"1000000" doc:"Most connections of nodes and operators."`
}

// Fetch bounds downloads of addresses that came from outside.
type Fetch struct {
	AllowHosts []string      `key:"allow_hosts" doc:"Hosts that may be asked: names, addresses, or *.example.org for every name beneath one; empty means any."`
	AllowNets  []string      `key:"allow_nets" doc:"Addresses or ranges that may be fetched although they are private, such as 192.168.1.0/24."`
	Private    []string      `key:"private_hosts" doc:"Hosts at which models, tool servers, services, gateways and webhooks of members may be although their addresses are private or of this machine, such as ollama.lan or 192.168.1.7; *.lan means every name beneath it. Pictures are not fetched from them."`
	MaxBytes   Size          `key:"max_bytes" default:"5MiB" min:"1KiB" max:"20MiB" doc:"Largest download."`
	Timeout    time.Duration `key:"timeout" default:"15s" min:"100ms" max:"5m" doc:"Longest time for one download."`
}

// Trace configures the records of turns and calls.
type Trace struct {
	Keep    time.Duration `key:"keep" default:"7d" min:"1h" max:"3650d" doc:"How long records are kept."`
	Content bool          `key:"content" default:"false" doc:"Also record what was said, unless the owner of a bot decided otherwise for it."`
}

// History configures how much of a conversation is kept for bots.
type History struct {
	Keep  time.Duration `key:"keep" default:"30d" min:"1h" max:"3650d" doc:"How long a conversation is kept after its last turn."`
	Turns int           `key:"turns" default:"20" min:"1" max:"1000" doc:"Most earlier turns that a bot is given."`
}

// Media configures how long images are kept.
type Media struct {
	Keep time.Duration `key:"keep" default:"1h" min:"1m" max:"30d" doc:"How long a picture is kept and its address works."`
}

// MCP configures the endpoints for programs.
type MCP struct {
	Hosts         []string      `key:"hosts" doc:"Names under which programs may reach this server, besides addresses, names of the local network and the one in public_url."`
	Origins       []string      `key:"origins" doc:"Web pages of other sites that may call tools, such as https://app.example.org."`
	Sessions      int           `key:"sessions" default:"10000" min:"1" max:"1000000" doc:"Most sessions that are kept in memory."`
	SessionsOfKey int           `key:"sessions_of_key" default:"2500" min:"1" max:"1000000" doc:"Most sessions of one key that are kept in memory."`
	Idle          time.Duration `key:"idle" default:"30m" min:"1m" max:"30d" doc:"How long a session that nobody uses is kept in memory."`
}

// Learn has the defaults for people without settings of their own, and the embeddings for finding
// points.
type Learn struct {
	TimeZone        string `key:"time_zone" doc:"Time zone of people who did not say theirs, such as Asia/Shanghai; empty means the server's."`
	ImportSize      Size   `key:"import_size" default:"256MiB" min:"1MiB" max:"256MiB" doc:"Largest file of knowledge points that is taken over HTTP."`
	EmbeddingsURL   string `key:"embeddings_url" doc:"Base of an OpenAI-compatible API that makes vectors of texts, such as https://api.openai.com/v1, so that points are also found by their meaning; empty means that they are found by their words."`
	EmbeddingsKey   string `key:"embeddings_key" secret:"true" doc:"Key of that API."`
	EmbeddingsModel string `key:"embeddings_model" default:"text-embedding-3-small" doc:"Model that it is asked for."`
	EmbeddingsDims  int    `key:"embeddings_dims" default:"256" min:"0" max:"4096" doc:"Length of the vectors that it is asked for; 0 means that of the model."`
}

// Audit configures the records of calls.
type Audit struct {
	Keep time.Duration `key:"keep" default:"90d" min:"1h" max:"3650d" doc:"How long the record of a call is kept."`
	Args bool          `key:"args" default:"false" doc:"Also keep the arguments of all calls. Keys can have it for theirs alone."`
}

// Metrics configures who may read the metrics.
type Metrics struct {
	Listen string `key:"listen" doc:"Address and port for /metrics alone; empty means it is served with everything else."`
	Open   bool   `key:"open" default:"false" doc:"Let anyone read /metrics; otherwise only loopback and holders of a key."`
}

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
