package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// learnFlags say whose knowledge points to use, and where they are.
type learnFlags struct {
	User      string `help:"Whose knowledge points; may be left out while there is one person." placeholder:"NAME"`
	Server    string `help:"Server to ask, wherever it runs; or PATCHBAY_SERVER." placeholder:"URL"`
	Key       string `help:"Key with scope learn for that server; better given as PATCHBAY_KEY." placeholder:"KEY"`
	dataFlags `embed:""`
}

// retryFlags returns the flags to append to a suggested command, so that it uses the same knowledge
// points.
func (f learnFlags) retryFlags() string {
	suffix := f.dataFlags.retryFlags()
	if f.User != "" {
		suffix += " --user " + quoteWord(f.User)
	}
	if f.Server != "" {
		suffix += " --server " + quoteWord(f.Server)
	}
	return suffix
}

// envLearnKey is the environment variable in which programs made for the service that Learn is
// compatible with have their key.
const envLearnKey = "LEARN_ASSISTANT_API_KEY"

// key returns the given key, if any.
func (f learnFlags) key(sh *shell) string {
	for _, key := range []string{f.Key, sh.getenv(config.EnvKey), sh.getenv(envLearnKey)} {
		if key != "" {
			return key
		}
	}
	return ""
}

// remoteServer returns the named server, or nil if none was named.
func (f learnFlags) remoteServer(sh *shell) (*learnRemote, error) {
	address := f.Server
	if address == "" {
		address = sh.getenv(config.EnvServer)
	}
	key := f.key(sh)
	switch {
	case address == "":
		_, err := serverFlags{Key: f.Key}.remote(sh)
		return nil, err
	case key == "":
		return nil, usage(i18n.Message("a key for the server is missing; give --key or PATCHBAY_KEY (patchbay key add --name laptop --scope learn makes one there)"))
	case f.User != "":
		return nil, usage(i18n.Message("--user is of no use with a server elsewhere: the key says whose the knowledge points are"))
	}
	// Clients of Learn are often configured with the URL of its endpoint.
	r, err := serverFlags{Server: strings.TrimSuffix(strings.TrimRight(address, "/"), learnEndpoint),
		Key: key}.remote(sh)
	if err != nil {
		return nil, err
	}
	return &learnRemote{r}, nil
}

// learnCaller calls Learn's tools: on a remote server, on the server that runs on the data
// directory, or in the data directory itself.
type learnCaller interface {
	// call calls a tool and decodes its result into a variable, unless that is nil. An error of
	// type *learnError is the tool's own.
	call(ctx context.Context, name string, args, into any) error
}

// learnError is an error that a tool returns.
type learnError struct {
	text string
	// reason is for programs, such as "already_reviewed"; empty if there is only the text.
	reason string
	// structured is the error for programs, perhaps with more details.
	structured json.RawMessage
}

func (e *learnError) Error() string { return e.text }

// learnLimit is the timeout of a call. A new schedule for a deck reschedules all its points.
const learnLimit = 10 * time.Minute

// open determines where the knowledge points are, and calls use with a caller of the tools there.
func (f learnFlags) open(ctx context.Context, sh *shell, use func(learnCaller) error) error {
	remoteLearn, err := f.remoteServer(sh)
	if err != nil {
		return err
	}
	if remoteLearn != nil {
		return use(remoteLearn)
	}
	settings, err := f.load(sh)
	if err != nil {
		return err
	}
	if !hasData(settings) {
		return f.noData(settings)
	}
	r, err := findRunning(ctx, sh, settings)
	if err != nil {
		return err
	}
	if r != nil {
		return use(&learnLocalServer{sh, r, f.User})
	}
	return withBase(ctx, sh, settings, func(b *app.Base) error {
		p, err := person(ctx, b, f.User)
		if err != nil {
			return err
		}
		service, err := learnService(sh, b)
		if err != nil {
			return err
		}
		return use(&learnLocalData{learn.Provider{Service: service}, p, string(sh.lang)})
	})
}

// learnService returns Learn without a server. No model is available to judge.
func learnService(sh *shell, b *app.Base) (*learn.Service, error) {
	o, err := app.LearnOptions(b, sh.logger())
	return learn.New(o), err
}

// learnWith opens existing data and calls use with Learn and the person.
func (f learnFlags) learnWith(ctx context.Context, sh *shell, use func(s *learn.Service, person string) error) error {
	return f.withData(ctx, sh, func(b *app.Base) error {
		p, err := person(ctx, b, f.User)
		if err != nil {
			return err
		}
		s, err := learnService(sh, b)
		if err != nil {
			return err
		}
		return use(s, p.ID)
	})
}

// learnLocalData calls tools in the data directory.
type learnLocalData struct {
	provider learn.Provider
	person   store.Person
	lang     string
}

func (l *learnLocalData) call(ctx context.Context, name string, args, into any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	res, err := l.provider.Call(ctx, &tool.Call{Tool: name, Args: text,
		Caller: tool.Caller{Person: l.person.ID, Channel: "cli", Lang: l.lang}})
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.BadArgs {
		return &learnError{text: e.Told}
	}
	if err != nil {
		return err
	}
	return learnResult(res, into)
}

// learnLocalServer calls tools on the server that runs on the data directory.
type learnLocalServer struct {
	sh   *shell
	r    *remote
	user string
}

func (l *learnLocalServer) call(ctx context.Context, name string, args, into any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	var end api.ToolLine
	ctx, cancel := context.WithTimeout(ctx, learnLimit)
	defer cancel()
	told := false
	err = l.r.call(ctx, name, api.ToolCall{Arguments: text, User: l.user}, func(line api.ToolLine) error {
		if line.Progress != nil {
			l.sh.progress(*line.Progress)
			told = true
		}
		end = line
		return nil
	})
	if told {
		l.sh.clearProgress()
	}
	switch {
	case err != nil:
		return err
	case end.Code == tool.BadArgs:
		return &learnError{text: end.Error}
	case end.Error != "":
		return toolError(end)
	case end.Result == nil:
		return i18n.Message("the server gave no result; is it of another version?").Errorf()
	}
	return learnResult(end.Result, into)
}

// learnResult decodes the result of a tool.
func learnResult(res *tool.Result, into any) error {
	if res.IsError {
		trouble := &learnError{text: res.PlainText(), structured: res.Structured}
		var why struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(res.Structured, &why) == nil {
			trouble.reason = why.Error
		}
		return trouble
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(res.Structured, into); err != nil {
		return i18n.Message("the result cannot be read; is the server of another version? %v").Errorf(err)
	}
	return nil
}

// learnRemote calls tools on a remote server, and transfers files.
type learnRemote struct{ *remote }

// learnEndpoint is the path of Learn's tools on a server.
const learnEndpoint = "/api/mcp"

// errLearnKey explains an invalid key.
var errLearnKey = i18n.Message("the server refuses the key; it needs scope learn (patchbay key add --name laptop --scope learn makes one there), and must not be revoked").Errorf()

func (l *learnRemote) call(ctx context.Context, name string, args, into any) error {
	ctx, cancel := context.WithTimeout(ctx, learnLimit)
	defer cancel()
	params := map[string]any{"name": name, "arguments": args}
	resp, err := l.send(ctx, http.MethodPost, learnEndpoint,
		map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		return learnRefusal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Result *tool.Result `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&answer); err != nil {
		return i18n.Message("%s does not answer as a Patchbay server does").Errorf(l.url)
	}
	switch {
	case answer.Error != nil:
		return &learnError{text: answer.Error.Message}
	case answer.Result == nil:
		return i18n.Message("%s does not answer as a Patchbay server does").Errorf(l.url)
	}
	return learnResult(answer.Result, into)
}

// learnRefusal explains which key a server requires for Learn.
func learnRefusal(err error) error {
	if errors.Is(err, errUnauthorized) {
		return errLearnKey
	}
	return err
}
