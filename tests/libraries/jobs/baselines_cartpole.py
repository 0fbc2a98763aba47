"""stable-baselines: PPO2 and DQN learn CartPole; DQN's agent is saved and loaded."""
import os
import tempfile

import gym
import numpy as np
from stable_baselines import DQN, PPO2


def steps_kept_up(agent, episodes=10):
    """The mean length of episodes under the agent, at most 200 steps each."""
    env, total = gym.make("CartPole-v0"), 0
    env.seed(7)
    for _ in range(episodes):
        state, done = env.reset(), False
        while not done:
            state, _, done, _ = env.step(agent.predict(state, deterministic=True)[0])
            total += 1
    return total / episodes


ppo = PPO2("MlpPolicy", "CartPole-v0", n_steps=128, nminibatches=4, learning_rate=1e-3, verbose=0,
           seed=0, n_cpu_tf_sess=1)
print("value ppo2_untrained", steps_kept_up(ppo))
ppo.learn(16000)
print("value ppo2_steps", steps_kept_up(ppo))
dqn = DQN("MlpPolicy", "CartPole-v0", learning_rate=1e-3, exploration_fraction=0.3,
          learning_starts=500, target_network_update_freq=250, verbose=0, seed=0, n_cpu_tf_sess=1)
dqn.learn(20000)
print("value dqn_steps", steps_kept_up(dqn))
with tempfile.TemporaryDirectory() as folder:
    dqn.save(os.path.join(folder, "dqn"))
    loaded = DQN.load(os.path.join(folder, "dqn"))
states = np.random.RandomState(0).randn(100, 4)
print("value loaded_agrees", np.mean([loaded.predict(s)[0] == dqn.predict(s)[0] for s in states]))
