package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/config"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/embed"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// LearnOptions returns the configured options of Learn, without a model.
func LearnOptions(b *Base, log *slog.Logger) (learn.Options, error) {
	o := learn.Options{Store: b.Store, Logger: log, Zone: localZone()}
	c := b.Config.Learn
	if zone, err := time.LoadLocation(c.TimeZone); err == nil && c.TimeZone != "" {
		o.Zone = zone
	}
	if c.EmbeddingsURL != "" {
		client, err := embed.New(embed.Options{URL: c.EmbeddingsURL, Key: c.EmbeddingsKey, Model: c.EmbeddingsModel,
			Dims: c.EmbeddingsDims})
		if err != nil {
			return o, fmt.Errorf("learn.embeddings: %w", err)
		}
		o.Embedder = client
	}
	return o, nil
}

// localZone returns the server's time zone, with its name if it can be found, because people and
// the review log show it.
func localZone() *time.Location {
	name := os.Getenv("TZ")
	if name == "" {
		if path, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
			_, name, _ = strings.Cut(path, "zoneinfo/")
		}
	}
	if zone, err := time.LoadLocation(strings.TrimPrefix(name, ":")); err == nil && name != "" {
		return zone
	}
	if time.Now().Location() == time.UTC || time.Local.String() == "UTC" {
		return time.UTC
	}
	return time.Local
}

// dueReviews returns a function that counts a person's remaining reviews of today.
func dueReviews(points *learn.Service) func(context.Context, string) (int, error) {
	return func(ctx context.Context, person string) (int, error) {
		q, err := points.Queue(ctx, person, learn.QueueFilter{Limit: 1})
		if err != nil {
			return 0, err
		}
		return q.Left.Total(), nil
	}
}

// learnChannel is the channel of turns in which a bot grades for Learn. Those turns may call no
// tools.
const learnChannel = "learn"

// newModel returns a function with which Learn asks a person's bots.
func newModel(h *hub.Hub) learn.Model {
	return func(ctx context.Context, person string, p learn.Prompt) (string, error) {
		bot, err := modelOf(ctx, h.Registry, h.Store, person, p.Bot)
		if err != nil {
			return "", err
		}
		turn := &talk.Turn{
			Bot: bot.Number, Channel: learnChannel, Person: "learn:" + person, Lang: i18n.Chinese, Depth: 1,
			// Every question is a conversation of its own.
			Conversation: uuid.NewString(), Parts: []talk.Part{{Text: p.Text}},
		}
		if p.Image != nil {
			turn.Parts = append(turn.Parts, talk.Part{Image: p.Image})
		}
		var answer strings.Builder
		err = h.Answer(ctx, turn, func(e talk.Event) error {
			if e.Kind == talk.KindText {
				if answer.Len()+len(e.Text) > maxJudgement {
					return errLongAnswer
				}
				answer.WriteString(e.Text)
			}
			return nil
		})
		return answer.String(), err
	}
}

// maxJudgement limits the answer of a model that Learn reads, in bytes.
const maxJudgement = 64 << 10

var errLongAnswer = errors.New("the model's answer is too long")

// modelOf returns the bot that grades for a person: the named one, or the first one that is a
// model.
func modelOf(ctx context.Context, r *hub.Registry, db *store.DB, person, ref string) (store.Bot, error) {
	if ref != "" {
		bot, err := r.Find(ctx, person, ref)
		if errors.Is(err, store.ErrNotFound) {
			return bot, fmt.Errorf("%w: there is no bot %q", learn.ErrNoModel, ref)
		}
		return bot, err
	}
	list, err := db.Bots.ByOwner(ctx, person)
	if err != nil {
		return store.Bot{}, err
	}
	for _, bot := range list {
		if bot.Kind == "openai" {
			return bot, nil
		}
	}
	return store.Bot{}, learn.ErrNoModel
}

// learnFilePaths are the paths of file transfers and of the calendar.
var learnFilePaths = []string{"/api/v1/learn/import", "/api/v1/learn/export", "/api/v1/learn/calendar.ics"}

// learnFiles imports and exports files with knowledge points: POST /api/v1/learn/import and GET
// /api/v1/learn/export.
type learnFiles struct {
	hub      *hub.Hub
	service  *learn.Service
	accounts *account.Service
	guard    *account.Guard
	log      *slog.Logger
	address  func(*http.Request) netip.Addr
	most     int64 // maximum size of a file, in bytes
}

func newLearnFiles(h *hub.Hub, s *learn.Service, b *Base, guard *account.Guard, log *slog.Logger,
	address func(*http.Request) netip.Addr, c *config.Config) http.Handler {
	f := &learnFiles{hub: h, service: s, accounts: b.Accounts, guard: guard, log: log, address: address,
		most: int64(c.Learn.ImportSize)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/learn/import", f.upload)
	mux.HandleFunc("GET /api/v1/learn/export", f.download)
	mux.HandleFunc("GET /api/v1/learn/calendar.ics", f.calendar)
	return mux
}

// learnOperations describes the operations of learnFiles.
func learnOperations() []api.Operation {
	type exportQuery struct {
		Format string `query:"format"` // json, csv, md, apkg
		Deck   string `query:"deck"`
	}
	type importQuery struct {
		Name    string `query:"name"`
		Format  string `query:"format"`
		Deck    string `query:"deck"`
		DryRun  bool   `query:"dry_run"`
		SkipBad bool   `query:"skip_bad"`
	}
	return []api.Operation{
		{Method: http.MethodPost, Path: "/api/v1/learn/import",
			Summary: "Import knowledge points from a file, which is the body", In: reflect.TypeFor[importQuery](),
			Out: reflect.TypeFor[learn.ImportResult](), Takes: "application/octet-stream", Scope: account.ScopeLearn},
		{Method: http.MethodGet, Path: "/api/v1/learn/export", Summary: "Write knowledge points to a file",
			In: reflect.TypeFor[exportQuery](), Kind: "application/octet-stream", Scope: account.ScopeLearn},
		{Method: http.MethodGet, Path: "/api/v1/learn/calendar.ics",
			Summary: "Tell a calendar how much is due on which day", Kind: "text/calendar", Scope: account.ScopeLearn},
	}
}

// channelFiles is the channel of file transfers in logs and in the audit trail.
const channelFiles = "learn-files"

// person returns the principal of a request if its key may use the named tool. Otherwise it writes
// the error response.
func (f *learnFiles) person(w http.ResponseWriter, r *http.Request, name string) (account.Principal, bool) {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		secret = ""
	}
	p, err := f.accounts.Authenticate(r.Context(), strings.TrimSpace(secret), account.ScopeLearn, account.ScopeOperator,
		account.ScopeAdmin)
	switch {
	case err == nil && p.Key.Bot != 0 && !slices.Contains(p.Key.Scopes, account.ScopeLearn):
		writeInvalid(w, r, http.StatusForbidden, msgKeyOfBot.Errorf())
	case err == nil && !f.allows(p, name):
		f.log.WarnContext(r.Context(), "a key's rules refused a file", "channel", channelFiles, "key", p.Key.ID,
			"tool", name)
		writeInvalid(w, r, http.StatusForbidden, msgKeyRules.Errorf(name))
	case err == nil:
		return p, true
	case account.Refused(err):
		f.log.WarnContext(r.Context(), "a key was refused", "channel", channelFiles, "cause", err,
			"address", f.address(r))
		if f.guard.Refuse(f.address(r)) {
			w.Header().Set("Retry-After", "60")
			writeInvalid(w, r, http.StatusTooManyRequests, msgManyRefused.Errorf())
			return account.Principal{}, false
		}
		w.Header().Add("WWW-Authenticate", `Bearer realm="patchbay", scope="learn"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="patchbay"`)
		writeInvalid(w, r, http.StatusUnauthorized, msgLearnKey.Errorf())
	default:
		f.log.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		writeInvalid(w, r, http.StatusServiceUnavailable, msgKeyUnchecked.Errorf())
	}
	return account.Principal{}, false
}

// allows reports whether a key may use a tool.
func (f *learnFiles) allows(p account.Principal, name string) bool {
	v, err := f.hub.View(p.Person.ID, p.Key.Rules)
	return err == nil && slices.ContainsFunc(v.Tools, func(o *hub.RegisteredTool) bool { return o.Name == name })
}

// audit writes the call record of a file transfer.
func (f *learnFiles) audit(r *http.Request, p account.Principal, name string, began time.Time, bytes int64, err error) {
	row := store.Call{
		ID: uuid.Must(uuid.NewV7()).String(), At: began, Person: p.Person.ID, Address: f.address(r).String(),
		Key: p.Key.ID, Channel: channelFiles, Program: cut(r.UserAgent(), 100),
		Provider: "learn", Tool: name, Instance: f.hub.Bus.Instance, Took: time.Since(began), Bytes: bytes,
		Outcome: "done",
	}
	if err != nil {
		row.Outcome, row.Code, row.Cause = "failed", string(tool.Failed), cut(err.Error(), 500)
	}
	if err := f.service.Store.Calls.Add(context.WithoutCancel(r.Context()), []store.Call{row}); err != nil {
		f.log.ErrorContext(r.Context(), "a file is missing in the audit trail", "error", err)
	}
}

// cut limits text from outside to what a record should hold, in bytes.
func cut(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// Tools that do for one point what a file does for many.
const (
	toolOfImport = "create_knowledge_points"
	toolOfExport = "list_knowledge_points"
	toolOfFeed   = "learning_stats"
)

// Error messages about keys, files and server failures.
const (
	msgKeyOfBot     = i18n.Message("this key is for one bot alone, and not for knowledge points")
	msgKeyRules     = i18n.Message("the rules of this key do not allow %s")
	msgManyRefused  = i18n.Message("too many refused keys from this address; wait a minute")
	msgLearnKey     = i18n.Message("a key with scope learn, operator or admin is needed, as Authorization: Bearer …")
	msgKeyUnchecked = i18n.Message("the key could not be checked; try again later")
	msgFileLarge    = i18n.Message("the file is larger than %d MiB (setting learn.import_size)")
	msgImportsBusy  = i18n.Message("other files are being imported; try again in a moment")
	msgFileBroken   = i18n.Message("the file broke off")
	msgFileFormat   = i18n.Message("the format is json, csv, md or apkg")
	msgOurFault     = i18n.Message("something went wrong; the log says what")
)

// langOf returns the language that a request asks for.
func langOf(r *http.Request) i18n.Lang {
	return i18n.ParseLang(r.Header.Get("Accept-Language"), i18n.English)
}

// writeInvalid writes an error response in the language that the request asks for.
func writeInvalid(w http.ResponseWriter, r *http.Request, status int, err error) {
	writeJSON(w, status, map[string]string{"error": i18n.Localize(err, langOf(r))})
}

// transferTime is how long a transfer may take in either direction.
const transferTime = 30 * time.Minute

// upload imports the request body.
func (f *learnFiles) upload(w http.ResponseWriter, r *http.Request) {
	p, ok := f.person(w, r, toolOfImport)
	if !ok {
		return
	}
	release, ok := f.service.ReserveImport()
	if !ok {
		w.Header().Set("Retry-After", "10")
		writeInvalid(w, r, http.StatusServiceUnavailable, msgImportsBusy.Errorf())
		return
	}
	defer release()
	began := time.Now()
	limits := http.NewResponseController(w)
	limits.SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // otherwise the server's deadline applies
	file, err := os.CreateTemp("", "patchbay-import-*")
	if err != nil {
		f.failed(w, r, err)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	size, err := file.ReadFrom(http.MaxBytesReader(w, r.Body, f.most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		writeInvalid(w, r, http.StatusRequestEntityTooLarge, msgFileLarge.Errorf(f.most>>20))
		return
	} else if err != nil {
		writeInvalid(w, r, http.StatusBadRequest, msgFileBroken.Errorf())
		return
	}
	q := r.URL.Query()
	done, err := f.service.Import(r.Context(), p.Person.ID, learn.ImportFile{
		Name: q.Get("name"), Format: q.Get("format"), Deck: q.Get("deck"), Reader: file, Size: size,
		DryRun: q.Get("dry_run") == "true", SkipBadRows: q.Get("skip_bad") == "true",
	})
	if q.Get("dry_run") != "true" {
		f.audit(r, p, "import", began, size, err)
	}
	if err != nil {
		f.failed(w, r, err)
		return
	}
	status := http.StatusOK
	if len(done.RowErrors) > 0 && !done.Done && q.Get("dry_run") != "true" {
		status = http.StatusUnprocessableEntity
	}
	done.Localize(langOf(r))
	writeJSON(w, status, done)
}

// failed writes the response to a failed transfer: 400 for an invalid file, else 500.
func (f *learnFiles) failed(w http.ResponseWriter, r *http.Request, err error) {
	var tooMany *transfer.TooManyError
	if bad, ok := errors.AsType[*learn.Invalid](err); ok {
		writeInvalid(w, r, http.StatusBadRequest, bad)
		return
	}
	if errors.Is(err, transfer.ErrUnreadable) || errors.Is(err, transfer.ErrFormat) || errors.As(err, &tooMany) {
		writeInvalid(w, r, http.StatusBadRequest, err)
		return
	}
	f.log.ErrorContext(r.Context(), "a file of knowledge points failed", "error", err)
	writeInvalid(w, r, http.StatusInternalServerError, msgOurFault.Errorf())
}

// contentTypes are the content types and extensions of files, by format.
var contentTypes = map[string][2]string{
	transfer.JSON: {"application/json", "json"}, transfer.CSV: {"text/csv; charset=utf-8", "csv"},
	transfer.Markdown: {"text/markdown; charset=utf-8", "md"}, transfer.Anki: {"application/apkg", "apkg"},
}

// download exports a person's points.
func (f *learnFiles) download(w http.ResponseWriter, r *http.Request) {
	p, ok := f.person(w, r, toolOfExport)
	if !ok {
		return
	}
	began := time.Now()
	q := r.URL.Query()
	format := q.Get("format")
	if format == "" {
		format = transfer.JSON
	}
	kind, known := contentTypes[format]
	if !known {
		writeInvalid(w, r, http.StatusBadRequest, msgFileFormat.Errorf())
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // otherwise the server's deadline applies
	// Write the whole file first: an error in its middle could not be reported any more.
	file, err := os.CreateTemp("", "patchbay-export-*")
	if err != nil {
		f.failed(w, r, err)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	_, err = f.service.Export(r.Context(), p.Person.ID, learn.ExportOptions{Format: format, Deck: q.Get("deck")}, file)
	size, _ := file.Seek(0, io.SeekCurrent)
	f.audit(r, p, "export", began, size, err)
	if err != nil {
		f.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", kind[0])
	w.Header().Set("Content-Disposition", `attachment; filename="patchbay-learn.`+kind[1]+`"`)
	http.ServeContent(w, r, "", time.Time{}, file)
}

// indexEvery is how often new points are embedded.
const indexEvery = time.Minute

// index computes the embeddings of new points, on one instance at a time, until ctx ends.
func index(ctx context.Context, s *learn.Service, db *store.DB, instance string, log *slog.Logger) error {
	if s.Embedder == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		mine, err := db.Leases.Take(ctx, "learn-index", instance, now, now.Add(5*indexEvery))
		if err == nil && mine {
			err = s.Index(ctx)
		}
		if err != nil && ctx.Err() == nil {
			log.Error("knowledge points could not be given vectors", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
