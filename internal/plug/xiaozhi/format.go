package xiaozhi

import (
	"strings"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
)

var (
	sayFormatTitle = talk.Say{Zh: "音频格式不支持", En: "Sound format not supported"}
	sayFormat      = talk.Say{
		Zh: "服务器只支持 opus，设备的 hello 里是 %s。请把 audio_params.format 改成 opus。",
		En: "The server speaks opus, and the hello asks for %s. Set audio_params.format to opus.",
	}
)

// rejectFormat returns the alert for a board whose hello asks for an audio format other than Opus,
// or nil if the format is supported.
func rejectFormat(h *wire.Hello, lang talk.Lang) *wire.Message {
	format := h.Audio.Format
	if format == "" || strings.EqualFold(format, "opus") {
		return nil
	}
	return &wire.Message{
		Type: wire.TypeAlert, Status: sayFormatTitle.In(lang), Message: sayFormat.In(lang, clip(format)),
		Emotion: "sad",
	}
}
