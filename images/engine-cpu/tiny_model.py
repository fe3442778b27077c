"""Write a tiny random Qwen3 model with its own tokenizer: what an engine needs to serve, in a second, from nothing.

Its weights are drawn from a fixed seed, wide enough that greedy tokens depend on the whole prompt: a decode engine that
did not get the right KV cache answers with other tokens. Needs numpy, safetensors and tokenizers, and no network.

usage: tiny_model.py FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, SEED = 2, 64, 4, 2, 32, 128, 0
END_OF_TEXT, TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "prefill and decode workers move the kv cache",
    "a request waits for its blocks",
    "hello world, how are you today?",
] * 20
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE: any text can be encoded."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=[END_OF_TEXT, TURN, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def configs(tokenizer: Tokenizer, vocabulary: int) -> dict[str, dict]:
    end, text_end = tokenizer.token_to_id(END_OF_TURN), tokenizer.token_to_id(END_OF_TEXT)
    model = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "use_cache": True,
        "bos_token_id": text_end,
        "eos_token_id": end,
        "torch_dtype": "float32",
    }
    tokens = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "model_max_length": 4096,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    generation = {"eos_token_id": end, "bos_token_id": text_end, "do_sample": False}
    return {"config.json": model, "tokenizer_config.json": tokens, "generation_config.json": generation}


def draw_weights(vocabulary: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int, scale: float) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * scale).astype(np.float32)

    weights = {
        "model.embed_tokens.weight": matrix(vocabulary, HIDDEN, 1.0),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        "lm_head.weight": matrix(vocabulary, HIDDEN, 0.5),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        weights |= {
            f"{attention}.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN, 0.2),
            f"{attention}.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN, 0.2),
            f"{attention}.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN, 0.3),
            f"{attention}.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM, 0.3),
            f"{attention}.q_norm.weight": np.full(HEAD_DIM, 2, np.float32),
            f"{attention}.k_norm.weight": np.full(HEAD_DIM, 2, np.float32),
            f"{mlp}.gate_proj.weight": matrix(INTERMEDIATE, HIDDEN, 0.2),
            f"{mlp}.up_proj.weight": matrix(INTERMEDIATE, HIDDEN, 0.2),
            f"{mlp}.down_proj.weight": matrix(HIDDEN, INTERMEDIATE, 0.2),
            f"{prefix}.input_layernorm.weight": np.ones(HIDDEN, np.float32),
            f"{prefix}.post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
        }
    return weights


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = -(-tokenizer.get_vocab_size() // 64) * 64
    for name, content in configs(tokenizer, vocabulary).items():
        (folder / name).write_text(json.dumps(content, indent=1))
    save_file(draw_weights(vocabulary), str(folder / "model.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    main()
