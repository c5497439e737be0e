package mcptest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

// block is a content block of any kind.
type block map[string]any

func result(blocks ...block) *tool.Result {
	return &tool.Result{Content: raw(blocks)}
}

// raw encodes a value that can always be encoded.
func raw(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func text(words string) block { return block{"type": "text", "text": words} }

func media(kind, mime string, data []byte) block {
	return block{"type": kind, "mimeType": mime, "data": base64.StdEncoding.EncodeToString(data)}
}

func embedded(uri, mime, words string) block {
	return block{"type": "resource", "resource": block{"uri": uri, "mimeType": mime, "text": words}}
}

// picture is a PNG with a red dot.
var picture = func() []byte {
	dot := image.NewRGBA(image.Rect(0, 0, 1, 1))
	dot.Set(0, 0, color.RGBA{R: 255, A: 255})
	var w bytes.Buffer
	if err := png.Encode(&w, dot); err != nil {
		panic(err)
	}
	return w.Bytes()
}()

// sound is a WAV file of a millisecond of silence: 8 samples of 16 bits at 8 kHz.
var sound = func() []byte {
	const rate, width, samples = 8000, 2, 8
	w := []byte("RIFF")
	w = binary.LittleEndian.AppendUint32(w, 36+samples*width)
	w = append(w, "WAVEfmt "...)
	w = binary.LittleEndian.AppendUint32(w, 16)
	for _, half := range []uint16{1, 1} { // PCM, mono
		w = binary.LittleEndian.AppendUint16(w, half)
	}
	w = binary.LittleEndian.AppendUint32(w, rate)
	w = binary.LittleEndian.AppendUint32(w, rate*width)
	for _, half := range []uint16{width, 8 * width} {
		w = binary.LittleEndian.AppendUint16(w, half)
	}
	w = append(w, "data"...)
	w = binary.LittleEndian.AppendUint32(w, samples*width)
	return append(w, make([]byte, samples*width)...)
}()

// respondWith returns a tool function with a constant result.
func respondWith(r *tool.Result) func(context.Context, *Fixtures, *tool.Call) (*tool.Result, error) {
	return func(context.Context, *Fixtures, *tool.Call) (*tool.Result, error) {
		copied := *r
		return &copied, nil
	}
}

// newerSchema has keywords of JSON Schema 2020-12, which an endpoint must pass on unchanged.
const newerSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object",
		"properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

// contentFixtures return every kind of content.
var contentFixtures = []fixture{
	newFixture("test_simple_text", "Answers with words.",
		respondWith(tool.Text("This is a simple text response for testing."))),
	newFixture("test_image_content", "Answers with a picture.", respondWith(tool.Picture("image/png", picture))),
	newFixture("test_audio_content", "Answers with a sound.", respondWith(result(media("audio", "audio/wav", sound)))),
	newFixture("test_embedded_resource", "Answers with a resource.",
		respondWith(result(embedded("test://embedded-resource", "text/plain",
			"This is an embedded resource content.")))),
	newFixture("test_multiple_content_types", "Answers with words, a picture and a resource.", respondWith(result(
		text("Multiple content types test:"),
		media("image", "image/png", picture),
		embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`),
	))),
	newFixture("test_error_handling", "Fails.",
		respondWith(tool.ErrorResult("This tool intentionally returns an error for testing"))),
	newFixture("json_schema_2020_12_tool", "Has a schema with much of JSON Schema 2020-12.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			return tool.Text("Called with " + string(c.Args)), nil
		}).withInput(newerSchema),
	newFixture("test_x_mcp_header", "Has an argument that callers repeat in a header.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Region string `json:"region"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, tool.Fail(tool.BadArgs, "The region is no text.", err)
			}
			return tool.Text("region=" + args.Region), nil
		}).withInput(`{"type":"object","properties":{
			"region":{"type":"string","description":"Repeated in Mcp-Param-Region.","x-mcp-header":"Region"},
			"level":{"type":"integer","description":"Not repeated."}}}`),
}

// stepDelay is the delay between two reports of a tool.
const stepDelay = 50 * time.Millisecond

// progressFixtures report progress.
var progressFixtures = []fixture{
	newFixture("test_tool_with_logging", "Logs three lines.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			for i, line := range []string{"Tool execution started", "Tool processing data",
				"Tool execution completed"} {
				if i > 0 {
					if err := netx.Wait(ctx, stepDelay); err != nil {
						return nil, err
					}
				}
				log(c, line)
			}
			return tool.Text("Logged three lines."), nil
		}),
	newFixture("test_tool_with_progress", "Reports progress three times.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if err := progress(ctx, c, stepDelay); err != nil {
				return nil, err
			}
			return tool.Text("Reported progress."), nil
		}),
	newFixture("test_logging_tool", "Logs a line if the caller wants to know.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			log(c, "test_logging_tool was called")
			return tool.Text("Logged, if you asked for it."), nil
		}),
	newFixture("test_reconnection", "Disconnects in mid-call; the result is there when the caller comes back.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if c.Detach != nil {
				c.Detach()
			}
			if err := netx.Wait(ctx, 2*stepDelay); err != nil {
				return nil, err
			}
			return tool.Text("You came back."), nil
		}),
}

func log(c *tool.Call, line string) {
	if c.Log != nil {
		c.Log(tool.Log{Level: "info", Data: raw(line)})
	}
}

// progress reports 0, 50 and 100 percent.
func progress(ctx context.Context, c *tool.Call, pause time.Duration) error {
	for i, done := range []float64{0, 50, 100} {
		if i > 0 {
			if err := netx.Wait(ctx, pause); err != nil {
				return err
			}
		}
		if c.Progress != nil {
			c.Progress(tool.Progress{Done: done, Total: 100})
		}
	}
	return nil
}
