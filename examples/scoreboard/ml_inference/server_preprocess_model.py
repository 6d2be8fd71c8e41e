"""The server reads its network and says what is promised. Weights are encoded where they are needed first."""

from inference import server_program

print(server_program().explain())
