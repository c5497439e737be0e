/*
 * The face of the encoder towards the host: one mono encoder per instance, in
 * static memory, so that an instance never allocates and needs no imports.
 * The host writes samples to pcm(), calls encode(), and reads from packet().
 */
#include <opus.h>

#define EXPORT(name) __attribute__((export_name(#name)))

enum {
	MAX_SAMPLES = 48000 * 60 / 1000, /* 60 ms at the highest rate */
	MAX_PACKET = 3 * 1275 + 8,       /* three frames of the greatest length, and their lengths */
	STATE_BYTES = 64 * 1024,
};

static opus_int16 samples[MAX_SAMPLES];
static unsigned char packet_bytes[MAX_PACKET];
static _Alignas(16) unsigned char state[STATE_BYTES];

EXPORT(pcm) void *pcm(void) { return samples; }
EXPORT(packet) void *packet(void) { return packet_bytes; }
EXPORT(state_bytes) int state_bytes(void) { return opus_encoder_get_size(1); }

/* Starts a new stream. Returns 0 or one of libopus' negative errors. */
EXPORT(start) int start(int rate, int bitrate, int complexity, int music, int dtx, int fec, int loss)
{
	OpusEncoder *e = (OpusEncoder *)state;
	int err;

	if (opus_encoder_get_size(1) > STATE_BYTES)
		return OPUS_ALLOC_FAIL;
	err = opus_encoder_init(e, rate, 1, music ? OPUS_APPLICATION_AUDIO : OPUS_APPLICATION_VOIP);
	if (err == OPUS_OK)
		err = opus_encoder_ctl(e, OPUS_SET_BITRATE(bitrate > 0 ? bitrate : OPUS_AUTO));
	if (err == OPUS_OK)
		err = opus_encoder_ctl(e, OPUS_SET_COMPLEXITY(complexity));
	if (err == OPUS_OK)
		err = opus_encoder_ctl(e, OPUS_SET_DTX(dtx));
	if (err == OPUS_OK)
		err = opus_encoder_ctl(e, OPUS_SET_INBAND_FEC(fec));
	if (err == OPUS_OK)
		err = opus_encoder_ctl(e, OPUS_SET_PACKET_LOSS_PERC(loss));
	return err;
}

/* Encodes n samples. Returns the length of the packet or a negative error. */
EXPORT(encode) int encode(int n, int limit)
{
	if (n < 0 || n > MAX_SAMPLES || limit < 1)
		return OPUS_BAD_ARG;
	return opus_encode((OpusEncoder *)state, samples, n, packet_bytes, limit < MAX_PACKET ? limit : MAX_PACKET);
}

/* How many samples the encoder delays the sound by. */
EXPORT(lookahead) int lookahead(void)
{
	opus_int32 n = 0;
	opus_encoder_ctl((OpusEncoder *)state, OPUS_GET_LOOKAHEAD(&n));
	return n;
}

/*
 * libopus' repacketizer asks this of opus_decoder.c, which is all of the decoder;
 * without it the module is the encoder only.
 */
int opus_packet_get_nb_frames(const unsigned char packet[], opus_int32 len)
{
	if (len < 1)
		return OPUS_BAD_ARG;
	switch (packet[0] & 3) {
	case 0:
		return 1;
	case 3:
		return len < 2 ? OPUS_INVALID_PACKET : packet[1] & 0x3F;
	}
	return 2;
}
