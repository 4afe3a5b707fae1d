"""`gpu-billing`: thin commands over the functions of the other folders."""
